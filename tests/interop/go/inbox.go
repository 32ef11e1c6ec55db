package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	waitMax  = 60 * time.Second
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
