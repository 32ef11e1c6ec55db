package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	callTimeout = 15 * time.Second
	instances   = "pocketmq-"
	briefPull   = 2 * time.Second
	pullMax     = 32
)

var (
	nothing      = context.Background()
	instanceLast atomic.Int64
	everything   = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
)

// A listener is told a message's fate by what it returns.
type listener = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// A stage is what a scenario plays on: a new topic, a producer, an operator and consumers; it closes
// what it opened, the last first.
type stage struct {
	topic, group string
	broker       string
	resolver     primitive.NsResolver
	namesrv      string
	credentials  primitive.Credentials
	operator     admin.Admin
	producer     rocketmq.Producer
	queues       []*primitive.MessageQueue

	lock    sync.Mutex
	closing []func()
}

func newStage(given options, queueCount int) (*stage, error) {
	s := &stage{
		topic:    given["topic"],
		group:    given["group"],
		broker:   given["broker"],
		namesrv:  given["namesrv"],
		resolver: primitive.NewPassthroughResolver([]string{given["namesrv"]}),
		credentials: primitive.Credentials{
			AccessKey: given["access-key"], SecretKey: given["secret-key"],
		},
	}
	if err := s.open(queueCount); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) open(queueCount int) error {
	operator, err := admin.NewAdmin(admin.WithResolver(s.resolver), admin.WithCredentials(s.credentials))
	if err != nil {
		return err
	}
	s.operator = operator
	if !s.credentials.IsEmpty() {
		// This method alone lets the client sign: what it asks later, too.
		if _, err := operator.GetAllSubscriptionGroup(nothing, s.broker, callTimeout); err != nil {
			return err
		}
	}
	if err := s.createTopic(s.topic, queueCount); err != nil {
		return err
	}
	if s.producer, err = s.newProducer(s.group + "-producer"); err != nil {
		return err
	}
	s.queues, err = s.publishQueues(s.topic)
	return err
}

func (s *stage) close() {
	s.lock.Lock()
	closing := s.closing
	s.closing = nil
	s.lock.Unlock()
	for i := len(closing) - 1; i >= 0; i-- {
		closing[i]()
	}
}

func (s *stage) closeLater(end func() error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.closing = append(s.closing, func() { _ = end() })
}

// createTopic creates a topic and waits until the name server knows it.
func (s *stage) createTopic(topic string, queueCount int) error {
	err := patiently("create topic "+topic, func() error {
		return s.operator.CreateTopic(nothing,
			admin.WithTopicCreate(topic),
			admin.WithBrokerAddrCreate(s.broker),
			admin.WithReadQueueNums(queueCount),
			admin.WithWriteQueueNums(queueCount),
		)
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	_, err = s.publishQueues(topic)
	return err
}

// createRetryTopic creates a group's retry topic before the group does: a client that finds none
// when it starts asks for its route again after 30 s only.
func (s *stage) createRetryTopic(group string) error {
	return s.createTopic("%RETRY%"+group, 1)
}

// publishQueues waits for a topic's route. The client keeps a route for good that it once looked up
// this way.
func (s *stage) publishQueues(topic string) ([]*primitive.MessageQueue, error) {
	var queues []*primitive.MessageQueue
	err := await("route of "+topic, func() bool {
		var err error
		queues, err = s.operator.FetchPublishMessageQueues(nothing, topic)
		return err == nil && len(queues) > 0
	})
	return queues, err
}

// instance gives each client a connection of its own: those of the same name share everything,
// even the group that transaction checks are for.
func instance() string {
	return instances + strconv.FormatInt(instanceLast.Add(1), 10)
}

func (s *stage) newProducer(group string, more ...producer.Option) (rocketmq.Producer, error) {
	settings := append([]producer.Option{
		producer.WithGroupName(group),
		producer.WithInstanceName(instance()),
		producer.WithNsResolver(s.resolver),
		producer.WithCredentials(s.credentials),
		producer.WithSendMsgTimeout(callTimeout),
	}, more...)
	made, err := rocketmq.NewProducer(settings...)
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, fmt.Errorf("start producer %s: %w", group, err)
	}
	s.closeLater(made.Shutdown)
	return made, nil
}

// message makes one whose key is the only thing that tells it from others.
func (s *stage) message(key string) *primitive.Message {
	message := primitive.NewMessage(s.topic, []byte(key))
	message.WithKeys([]string{key})
	return message
}

// send sends messages with the keys from to to-1, round the queues.
func (s *stage) send(from, to int) error {
	byQueue, err := s.newProducer(
		s.group+"-sender", producer.WithQueueSelector(producer.NewManualQueueSelector()))
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		message := s.message(strconv.Itoa(i))
		message.Queue = s.queues[i%len(s.queues)]
		if _, err := byQueue.SendSync(nothing, message); err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
	}
	return nil
}

// consume starts a push consumer.
func (s *stage) consume(
	group, topic string, selector consumer.MessageSelector, listen listener, more ...consumer.Option,
) (rocketmq.PushConsumer, error) {
	settings := append([]consumer.Option{
		consumer.WithGroupName(group),
		consumer.WithInstance(instance()),
		consumer.WithNsResolver(s.resolver),
		consumer.WithCredentials(s.credentials),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	made, err := rocketmq.NewPushConsumer(settings...)
	if err != nil {
		return nil, err
	}
	if err := made.Subscribe(topic, selector, listen); err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, fmt.Errorf("start consumer %s: %w", group, err)
	}
	s.closeLater(made.Shutdown)
	return made, nil
}

// member starts a push consumer of the stage's topic and group that accepts everything.
func (s *stage) member(name string, in *inbox, more ...consumer.Option) (rocketmq.PushConsumer, error) {
	return s.consume(s.group, s.topic, everything, accept(name, in), more...)
}

func accept(name string, in *inbox) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.add(name, messages)
		return consumer.ConsumeSuccess, nil
	}
}

// puller starts a pull consumer of a topic.
func (s *stage) puller(group, topic string, selector consumer.MessageSelector,
	more ...consumer.Option) (rocketmq.PullConsumer, error) {
	settings := append([]consumer.Option{
		consumer.WithGroupName(group),
		consumer.WithInstance(instance()),
		consumer.WithNsResolver(s.resolver),
		consumer.WithCredentials(s.credentials),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	made, err := rocketmq.NewPullConsumer(settings...)
	if err != nil {
		return nil, err
	}
	if err := made.Subscribe(topic, selector); err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, fmt.Errorf("start pull consumer %s: %w", group, err)
	}
	s.closeLater(made.Shutdown)
	return made, nil
}

// readAll reads a whole topic by queue and offset, until it found so many messages.
func (s *stage) readAll(topic string, count int) ([]received, error) {
	return s.readUntil(topic, func(found []received) bool { return len(found) >= count })
}

func (s *stage) readUntil(topic string, enough func([]received) bool) ([]received, error) {
	queues, err := s.publishQueues(topic)
	if err != nil {
		return nil, err
	}
	reader, err := s.puller(s.group+"-reader", topic, everything)
	if err != nil {
		return nil, err
	}
	found := []received{}
	next := make([]int64, len(queues))
	err = await("what is to be in "+topic, func() bool {
		for i, queue := range queues {
			result, err := pullBriefly(reader, queue, next[i])
			if err != nil || result.Status != primitive.PullFound {
				continue
			}
			found = append(found, receivedAll(result.GetMessageExts())...)
			next[i] = result.NextBeginOffset
		}
		return enough(found)
	})
	if err != nil {
		return nil, fmt.Errorf("%w; it holds %d messages", err, len(found))
	}
	return found, nil
}

// pullBriefly gives up early: the broker holds a pull at the end of a queue for 20 s.
func pullBriefly(
	reader rocketmq.PullConsumer, queue *primitive.MessageQueue, offset int64,
) (*primitive.PullResult, error) {
	briefly, cancel := context.WithTimeout(nothing, briefPull)
	defer cancel()
	return reader.PullFrom(briefly, queue, offset, pullMax)
}
