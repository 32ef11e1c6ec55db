package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const largeBody = 100_000

type sendsSeen struct {
	Sent     []sent     `json:"sent"`
	Received []received `json:"received"`
}

// sends sends in every form that the client has, and reads what the topic then holds.
func sends(given options) (any, error) {
	s, err := newStage(given, 4)
	if err != nil {
		return nil, err
	}
	defer s.close()
	seen := sendsSeen{}
	for _, send := range []func(*stage) ([]sent, error){sendSync, sendAsync, sendBatch, sendBySelector} {
		some, err := send(s)
		if err != nil {
			return nil, err
		}
		seen.Sent = append(seen.Sent, some...)
	}
	if err := s.producer.SendOneWay(nothing, s.message("one-way")); err != nil {
		return nil, err
	}
	seen.Received, err = s.readAll(s.topic, len(seen.Sent)+1+len(batchKeys)-1)
	return seen, err
}

func sendSync(s *stage) ([]sent, error) {
	plain := s.message("sync")
	plain.WithTag("TagA")
	plain.WithProperty("colour", "blå")
	plain.Flag = 7
	large := primitive.NewMessage(s.topic, []byte(strings.Repeat("compressed ", largeBody/11)))
	large.WithKeys([]string{"large"})
	var all []sent
	for _, message := range []*primitive.Message{plain, large} {
		result, err := s.producer.SendSync(nothing, message)
		if err != nil {
			return nil, fmt.Errorf("send %s: %w", message.GetKeys(), err)
		}
		all = append(all, sentOf("sync", message.GetKeys(), result))
	}
	return all, nil
}

func sendAsync(s *stage) ([]sent, error) {
	type answer struct {
		result *primitive.SendResult
		err    error
	}
	answers := make(chan answer, 1)
	called := func(_ context.Context, result *primitive.SendResult, err error) {
		answers <- answer{result, err}
	}
	if err := s.producer.SendAsync(nothing, called, s.message("async")); err != nil {
		return nil, err
	}
	got := <-answers
	if got.err != nil {
		return nil, fmt.Errorf("send async: %w", got.err)
	}
	return []sent{sentOf("async", "async", got.result)}, nil
}

var batchKeys = []string{"batch-0", "batch-1", "batch-2"}

func sendBatch(s *stage) ([]sent, error) {
	var batch []*primitive.Message
	for _, key := range batchKeys {
		batch = append(batch, s.message(key))
	}
	result, err := s.producer.SendSync(nothing, batch...)
	if err != nil {
		return nil, fmt.Errorf("send batch: %w", err)
	}
	return []sent{sentOf("batch", strings.Join(batchKeys, ","), result)}, nil
}

// sendBySelector sends by hash of a sharding key, and to a queue of the application's choice.
func sendBySelector(s *stage) ([]sent, error) {
	byHash, err := s.newProducer(
		s.group+"-hash", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return nil, err
	}
	byHand, err := s.newProducer(
		s.group+"-hand", producer.WithQueueSelector(producer.NewManualQueueSelector()))
	if err != nil {
		return nil, err
	}
	var all []sent
	for _, key := range []string{"hash-0", "hash-1"} {
		message := s.message(key)
		message.WithShardingKey("the same")
		result, err := byHash.SendSync(nothing, message)
		if err != nil {
			return nil, fmt.Errorf("send %s: %w", key, err)
		}
		all = append(all, sentOf("hash", key, result))
	}
	for _, queue := range s.queues {
		message := s.message(fmt.Sprintf("queue-%d", queue.QueueId))
		message.Queue = queue
		result, err := byHand.SendSync(nothing, message)
		if err != nil {
			return nil, fmt.Errorf("send to queue %d: %w", queue.QueueId, err)
		}
		all = append(all, sentOf("queue", message.GetKeys(), result))
	}
	return all, nil
}
