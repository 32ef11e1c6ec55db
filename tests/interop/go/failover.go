package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	lastKey     = "last"
	sendRetries = 2
	sendPace    = 50 * time.Millisecond
	sendPause   = 200 * time.Millisecond
)

type failoverSeen struct {
	Sent       []sent     `json:"sent"`
	Deliveries []delivery `json:"deliveries"`
}

// failover sends messages while the leader of a broker set changes, until its own consumer gets one
// with the key "last" from somebody else, and all that were sent. A message that the client's retries
// do not get rid of is sent again by the application: they follow each other at once, but the client
// asks for routes every 30 s only, which no option changes.
func failover(given options) (any, error) {
	s, err := newStage(given, 2)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.createRetryTopic(s.group); err != nil {
		return nil, err
	}
	in := &inbox{}
	if _, err := s.member("consumer", in); err != nil {
		return nil, err
	}
	retrying, err := s.newProducer(s.group+"-retrying", producer.WithRetry(sendRetries))
	if err != nil {
		return nil, err
	}
	s.producer = retrying
	seen := failoverSeen{}
	for !in.has(lastKey) {
		stored, err := s.sendAgainAndAgain(strconv.Itoa(len(seen.Sent)))
		if err != nil {
			return nil, err
		}
		seen.Sent = append(seen.Sent, stored)
		time.Sleep(sendPace)
	}
	if err := await("all messages", func() bool { return distinct(in, len(seen.Sent)) }); err != nil {
		return nil, fmt.Errorf("%w; delivered: %s", err, in.summary())
	}
	seen.Deliveries = in.all()
	return seen, nil
}

// sendAgainAndAgain sends a message until it is acknowledged.
func (s *stage) sendAgainAndAgain(key string) (sent, error) {
	var stored sent
	err := await("an acknowledgement of "+key, func() bool {
		result, err := s.producer.SendSync(nothing, s.message(key))
		if err == nil && result.Status == primitive.SendOK {
			stored = sentOf("sync", key, result)
			return true
		}
		fmt.Fprintln(os.Stderr, "sent again:", key, result, err)
		time.Sleep(sendPause)
		return false
	})
	return stored, err
}
