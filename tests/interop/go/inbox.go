package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	mqerrors "github.com/apache/rocketmq-client-go/v2/errors"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	waitMax  = 120 * time.Second
	lookWait = 20 * time.Millisecond
)

// await asks again and again until a condition holds.
func await(what string, holds func() bool) error {
	for end := time.Now().Add(waitMax); !holds(); time.Sleep(lookWait) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", waitMax, what)
		}
	}
	return nil
}

// patiently asks again what timed out: the client's admin waits for 3 or 5 s, whatever it is told,
// and on a loaded machine that is not always enough.
func patiently(what string, ask func() error) error {
	var answer error
	err := await(what, func() bool {
		answer = ask()
		return !errors.Is(answer, mqerrors.ErrRequestTimeout)
	})
	if err != nil {
		return err
	}
	return answer
}

// A delivery is one message that a listener got, and of how many in one call.
type delivery struct {
	Member  string   `json:"member"`
	Batch   int      `json:"batch"`
	Message received `json:"message"`
}

// An inbox is what listeners were given, in the order in which they got it.
type inbox struct {
	lock       sync.Mutex
	deliveries []delivery
}

func (i *inbox) add(member string, messages []*primitive.MessageExt) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for _, message := range messages {
		i.deliveries = append(i.deliveries, delivery{member, len(messages), receivedOf(message)})
	}
}

func (i *inbox) all() []delivery {
	i.lock.Lock()
	defer i.lock.Unlock()
	return append([]delivery{}, i.deliveries...)
}

// of counts what one member got.
func (i *inbox) of(member string) int {
	count := 0
	for _, one := range i.all() {
		if one.Member == member {
			count++
		}
	}
	return count
}

// has tells whether a message with this key was delivered.
func (i *inbox) has(key string) bool {
	for _, one := range i.all() {
		if one.Message.Keys == key {
			return true
		}
	}
	return false
}

// await waits until so many deliveries were made and returns all there are then.
func (i *inbox) await(what string, count int) ([]delivery, error) {
	err := await(what, func() bool { return len(i.all()) >= count })
	if err != nil {
		return nil, fmt.Errorf("%w; delivered: %s", err, i.summary())
	}
	return i.all(), nil
}

func (i *inbox) summary() string {
	text := ""
	for _, one := range i.all() {
		text += fmt.Sprintf("%s %s#%d ", one.Member, one.Message.Keys, one.Message.QueueID)
	}
	return text
}
