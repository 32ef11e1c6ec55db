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
	failoverMessages = 60
	failoverPace     = 50 * time.Millisecond
	failoverPause    = 200 * time.Millisecond
	sendRetries      = 2
)

type failoverSeen struct {
	Sent        []sent     `json:"sent"`
	FailedSends int        `json:"failedSends"`
	Deliveries  []delivery `json:"deliveries"`
}

// failover sends --messages and consumes them while the leader of a broker set changes. What the
// client's own retries do not get rid of is sent again by the application: they take no time, but
// the client asks for routes every 30 s only, which no option changes.
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
	if s.producer, err = s.newProducer(s.group+"-retrying", producer.WithRetry(sendRetries)); err != nil {
		return nil, err
	}
	count := given.number("messages", failoverMessages)
	seen := failoverSeen{}
	for number := range count {
		result, failed, err := s.sendAgainAndAgain(strconv.Itoa(number))
		if err != nil {
			return nil, err
		}
		seen.Sent = append(seen.Sent, result)
		seen.FailedSends += failed
		time.Sleep(failoverPace)
	}
	if err := await("all messages", func() bool { return distinct(in, count) }); err != nil {
		return nil, fmt.Errorf("%w; delivered: %s", err, in.summary())
	}
	seen.Deliveries = in.all()
	return seen, nil
}

// sendAgainAndAgain sends a message until it is acknowledged, and counts the sends that were not.
func (s *stage) sendAgainAndAgain(key string) (sent, int, error) {
	var stored sent
	failed := 0
	err := await("an acknowledgement of "+key, func() bool {
		result, err := s.producer.SendSync(nothing, s.message(key))
		if err == nil && result.Status == primitive.SendOK {
			stored = sentOf("sync", key, result)
			return true
		}
		fmt.Fprintln(os.Stderr, "sent again:", key, err)
		failed++
		time.Sleep(failoverPause)
		return false
	})
	return stored, failed, err
}
