package main

import (
	"fmt"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const pollTimeout = 200 * time.Millisecond

type pullSeen struct {
	FromStart  []received `json:"fromStart"`
	FromMiddle []received `json:"fromMiddle"`
	Waited     []received `json:"waited"`
	Next       []received `json:"next"`
	Current    int64      `json:"current"`
}

// pull reads one queue from given offsets, at its end, and from one that it sets. (The client's Pull,
// which takes turns, is left out: it also asks the empty queue of the group's retry topic, if it has
// that by then, and waits 20 s there.)
func pull(given options) (any, error) {
	const count = 10
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.send(0, count); err != nil {
		return nil, err
	}
	seen := pullSeen{}
	if seen.FromStart, err = s.readAll(s.topic, count); err != nil {
		return nil, err
	}
	reader, err := s.puller(s.group, s.topic, everything)
	if err != nil {
		return nil, err
	}
	queue := s.queues[0]
	result, err := reader.PullFrom(nothing, queue, 7, 2)
	if err != nil {
		return nil, fmt.Errorf("pull from 7: %w", err)
	}
	seen.FromMiddle = receivedAll(result.GetMessageExts())
	if seen.Waited, err = s.pullAhead(reader, queue, count); err != nil {
		return nil, err
	}
	if err := reader.UpdateOffset(queue, 4); err != nil {
		return nil, err
	}
	if seen.Current, err = reader.CurrentOffset(queue); err != nil {
		return nil, err
	}
	if result, err = reader.PullFrom(nothing, queue, seen.Current, 2); err != nil {
		return nil, fmt.Errorf("pull the next: %w", err)
	}
	seen.Next = receivedAll(result.GetMessageExts())
	return seen, nil
}

// pullAhead pulls from the end of a queue while a message comes.
func (s *stage) pullAhead(
	reader rocketmq.PullConsumer, queue *primitive.MessageQueue, end int,
) ([]received, error) {
	sending := make(chan error, 1)
	go func() { sending <- s.send(end, end+1) }()
	result, err := reader.PullFrom(nothing, queue, int64(end), 2)
	if err != nil {
		return nil, fmt.Errorf("pull from the end: %w", err)
	}
	return receivedAll(result.GetMessageExts()), <-sending
}

type pollSeen struct {
	First  []delivery `json:"first"`
	Second []delivery `json:"second"`
}

// poll takes messages of a topic and goes on with a second member of the group where the first one
// stopped. (What is acknowledged as to be retried goes to the retry topic, which Poll never returns
// from, on Apache's broker neither.)
func poll(given options) (any, error) {
	const early, late = 10, 14
	s, err := newStage(given, 2)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.send(0, early); err != nil {
		return nil, err
	}
	seen := pollSeen{}
	if seen.First, err = s.pollAll("first", early); err != nil {
		return nil, err
	}
	if err := s.send(early, late); err != nil {
		return nil, err
	}
	seen.Second, err = s.pollAll("second", late-early)
	return seen, err
}

func (s *stage) pollAll(name string, count int) ([]delivery, error) {
	poller, err := s.puller(s.group, s.topic, everything)
	if err != nil {
		return nil, err
	}
	in := &inbox{}
	err = await("all polled", func() bool {
		polled, err := poller.Poll(nothing, pollTimeout)
		if err != nil {
			return false
		}
		in.add(name, polled.GetMsgList())
		poller.ACK(nothing, polled, consumer.ConsumeSuccess)
		return len(in.all()) >= count
	})
	if err != nil {
		return nil, fmt.Errorf("%w; polled: %s", err, in.summary())
	}
	if err := poller.PersistOffset(nothing, s.topic); err != nil {
		return nil, err
	}
	return in.all(), poller.Shutdown()
}
