package main

import (
	"fmt"
	"maps"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var transactionKeys = []string{"commit", "rollback", "check-commit", "check-rollback"}

const transactionsCommitted = 2

type transactionsSeen struct {
	Sent       []sent         `json:"sent"`
	States     map[string]int `json:"states"`
	Checks     map[string]int `json:"checks"`
	Visible    int            `json:"visible"`
	Deliveries []delivery     `json:"deliveries"`
}

// A judge decides transactions by their key, those that are to be checked when it is told to, and
// each once: Apache's broker commits one twice that is committed by two checks.
type judge struct {
	lock     sync.Mutex
	checks   map[string]int
	decided  map[string]bool
	deciding bool
}

func (j *judge) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch message.GetKeys() {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (j *judge) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	j.lock.Lock()
	defer j.lock.Unlock()
	key := message.GetKeys()
	j.checks[key]++
	if !j.deciding || j.decided[key] {
		return primitive.UnknowState
	}
	j.decided[key] = true
	if key == "check-commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (j *judge) saw(keys map[string]bool) bool {
	return keys["check-commit"] && keys["check-rollback"]
}

func (j *judge) awaitChecks() error {
	return await("a first check of each unknown transaction", func() bool {
		j.lock.Lock()
		defer j.lock.Unlock()
		return j.checks["check-commit"] > 0 && j.checks["check-rollback"] > 0
	})
}

func (j *judge) awaitDecisions() error {
	j.lock.Lock()
	j.deciding = true
	j.lock.Unlock()
	return await("the check of each unknown transaction", func() bool {
		j.lock.Lock()
		defer j.lock.Unlock()
		return j.saw(j.decided)
	})
}

// transactions commits, rolls back, and does not know: then the broker asks.
func transactions(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	in := &inbox{}
	if _, err := s.member("consumer", in); err != nil {
		return nil, err
	}
	decides := &judge{checks: map[string]int{}, decided: map[string]bool{}}
	sender, err := rocketmq.NewTransactionProducer(decides,
		producer.WithGroupName(s.group),
		producer.WithInstanceName(instance()),
		producer.WithNsResolver(s.resolver),
		producer.WithCredentials(s.credentials),
		producer.WithSendMsgTimeout(callTimeout),
	)
	if err != nil {
		return nil, err
	}
	if err := sender.Start(); err != nil {
		return nil, err
	}
	s.closeLater(sender.Shutdown)
	seen := transactionsSeen{States: map[string]int{}}
	for _, key := range transactionKeys {
		message := s.message(key)
		// The broker asks for the first time after so many seconds, instead of 6.
		message.WithProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1")
		result, err := sender.SendMessageInTransaction(nothing, message)
		if err != nil {
			return nil, fmt.Errorf("send %s: %w", key, err)
		}
		seen.Sent = append(seen.Sent, sentOf("transaction", key, result.SendResult))
		seen.States[key] = int(result.State)
	}
	if _, err := in.await("the message that is committed at once", 1); err != nil {
		return nil, err
	}
	if err := decides.awaitChecks(); err != nil {
		return nil, err
	}
	seen.Visible = len(in.all())
	if err := decides.awaitDecisions(); err != nil {
		return nil, err
	}
	if seen.Deliveries, err = in.await("those committed by a check", transactionsCommitted); err != nil {
		return nil, err
	}
	decides.lock.Lock()
	defer decides.lock.Unlock()
	seen.Checks = maps.Clone(decides.checks)
	return seen, nil
}
