package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	reconsumeTimesMax = 2
	neverAgain        = -1
	suspendMs         = 100
)

type pushSeen struct {
	Sent        int        `json:"sent"`
	Group       string     `json:"group"`
	Deliveries  []delivery `json:"deliveries"`
	DeadLetters []received `json:"deadLetters,omitempty"`
}

// clustering has two members share a topic of four queues, then one of them leave.
func clustering(given options) (any, error) {
	const early, late = 200, 240
	s, err := newStage(given, 4)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.createRetryTopic(s.group); err != nil {
		return nil, err
	}
	in := &inbox{}
	if _, err := s.member("first", in); err != nil {
		return nil, err
	}
	second, err := s.member("second", in)
	if err != nil {
		return nil, err
	}
	if err := s.awaitShared(in); err != nil {
		return nil, err
	}
	if err := s.send(0, early); err != nil {
		return nil, err
	}
	if err := await("all of both", func() bool { return distinct(in, early) }); err != nil {
		return nil, fmt.Errorf("%w; delivered: %s", err, in.summary())
	}
	if err := second.Shutdown(); err != nil {
		return nil, err
	}
	if err := s.send(early, late); err != nil {
		return nil, err
	}
	if err := await("all of one", func() bool { return distinct(in, late) }); err != nil {
		return nil, fmt.Errorf("%w; delivered: %s", err, in.summary())
	}
	return pushSeen{Sent: late, Group: s.group, Deliveries: in.all()}, nil
}

// awaitShared sends messages with negative keys to each queue until both members get some.
func (s *stage) awaitShared(in *inbox) error {
	probe := -1
	return await("both members have queues", func() bool {
		if in.of("first") > 0 && in.of("second") > 0 {
			return true
		}
		for _, queue := range s.queues {
			message := s.message(strconv.Itoa(probe))
			message.Queue = queue
			_, _ = s.producer.SendSync(nothing, message)
			probe--
		}
		time.Sleep(10 * lookWait)
		return false
	})
}

// distinct tells whether all of the keys 0 to count-1 were delivered.
func distinct(in *inbox, count int) bool {
	keys := map[string]bool{}
	for _, one := range in.all() {
		if number, err := strconv.Atoi(one.Message.Keys); err == nil && number >= 0 {
			keys[one.Message.Keys] = true
		}
	}
	return len(keys) >= count
}

// broadcasting gives two members everything.
func broadcasting(given options) (any, error) {
	const count = 20
	s, err := newStage(given, 2)
	if err != nil {
		return nil, err
	}
	defer s.close()
	in := &inbox{}
	for _, name := range []string{"first", "second"} {
		if _, err := s.member(name, in, consumer.WithConsumerModel(consumer.BroadCasting)); err != nil {
			return nil, err
		}
	}
	if err := s.send(0, count); err != nil {
		return nil, err
	}
	deliveries, err := in.await("everything at both members", 2*count)
	return pushSeen{Sent: count, Group: s.group, Deliveries: deliveries}, err
}

// retries has messages fail: always, with an error, once, and never again.
func retries(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.createRetryTopic(s.group); err != nil {
		return nil, err
	}
	keys := []string{"fine", "hopeless", "error", "refused", "once"}
	for _, key := range keys {
		if _, err := s.producer.SendSync(nothing, s.message(key)); err != nil {
			return nil, err
		}
	}
	in := &inbox{}
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.add("consumer", messages)
		return retryVerdict(ctx, messages[0])
	}
	_, err = s.consume(s.group, s.topic, everything, listen,
		consumer.WithMaxReconsumeTimes(reconsumeTimesMax))
	if err != nil {
		return nil, err
	}
	attempts := 1 + 2*(1+reconsumeTimesMax) + 1 + 2
	deliveries, err := in.await("all retries", attempts)
	if err != nil {
		return nil, err
	}
	dead, err := s.readAll("%DLQ%"+s.group, 3)
	return pushSeen{len(keys), s.group, deliveries, dead}, err
}

func retryVerdict(
	ctx context.Context, message *primitive.MessageExt,
) (consumer.ConsumeResult, error) {
	switch key := message.GetKeys(); {
	case key == "hopeless", key == "once" && message.ReconsumeTimes == 0:
		return consumer.ConsumeRetryLater, nil
	case key == "error":
		return consumer.ConsumeRetryLater, errors.New("the listener fails, as it was asked to")
	case key == "refused":
		concurrently, _ := primitive.GetConcurrentlyCtx(ctx)
		concurrently.DelayLevelWhenNextConsume = neverAgain
		return consumer.ConsumeRetryLater, nil
	}
	return consumer.ConsumeSuccess, nil
}

// orderly reads four queues in order.
func orderly(given options) (any, error) {
	const count = 80
	s, err := newStage(given, 4)
	if err != nil {
		return nil, err
	}
	defer s.close()
	in := &inbox{}
	if _, err := s.member("consumer", in, consumer.WithConsumerOrder(true)); err != nil {
		return nil, err
	}
	if err := s.send(0, count); err != nil {
		return nil, err
	}
	deliveries, err := in.await("everything in order", count)
	return pushSeen{Sent: count, Group: s.group, Deliveries: deliveries}, err
}

// orderlyRetries has a message suspend its queue once.
func orderlyRetries(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	keys := []string{"first", "suspended", "after"}
	in := &inbox{}
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.add("consumer", messages)
		order, _ := primitive.GetOrderlyCtx(ctx)
		order.SuspendCurrentQueueTimeMillis = suspendMs
		if messages[0].GetKeys() == "suspended" && messages[0].ReconsumeTimes == 0 {
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		return consumer.ConsumeSuccess, nil
	}
	_, err = s.consume(s.group, s.topic, everything, listen, consumer.WithConsumerOrder(true),
		consumer.WithMaxReconsumeTimes(reconsumeTimesMax))
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if _, err := s.producer.SendSync(nothing, s.message(key)); err != nil {
			return nil, err
		}
	}
	deliveries, err := in.await("all attempts", len(keys)+1)
	return pushSeen{Sent: len(keys), Group: s.group, Deliveries: deliveries}, err
}
