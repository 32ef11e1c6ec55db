// Package orders takes orders and bills them, by way of RocketMQ.
package orders

import (
	"context"
	"fmt"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	Events    = "OrderEvents"
	Reminders = "Reminders"
	Group     = "billing"

	// Level 18 of RocketMQ's delays.
	twoHours = 18
)

// Orders tells everybody of orders, and has itself reminded of those that may not be paid.
type Orders struct {
	producer rocketmq.Producer
}

// NewOrders connects to a cluster.
func NewOrders(namesrv string) (*Orders, error) {
	made, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName("orders"),
		producer.WithInstanceName("orders"),
	)
	if err != nil {
		return nil, err
	}
	return &Orders{made}, made.Start()
}

// Order takes an order; it is an error if the broker may lose it.
func (o *Orders) Order(ctx context.Context, id, article string) error {
	told := primitive.NewMessage(Events, []byte(article)).WithKeys([]string{id})
	reminder := primitive.NewMessage(Reminders, []byte(id)).WithDelayTimeLevel(twoHours)
	for _, message := range []*primitive.Message{told, reminder} {
		result, err := o.producer.SendSync(ctx, message)
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("order %s is not safe: status %d", id, result.Status)
		}
	}
	return nil
}

// Close disconnects.
func (o *Orders) Close() error {
	return o.producer.Shutdown()
}

// Billing bills orders; one that cannot be billed is tried again, sixteen times.
type Billing struct {
	consumer rocketmq.PushConsumer
}

// NewBilling has orders billed by a bank.
func NewBilling(namesrv string, bank func(article string) error) (*Billing, error) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithGroupName(Group),
		consumer.WithInstance("billing"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(16),
	)
	if err != nil {
		return nil, err
	}
	bill := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if err := bank(string(message.Body)); err != nil {
				return consumer.ConsumeRetryLater, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := made.Subscribe(Events, consumer.MessageSelector{}, bill); err != nil {
		return nil, err
	}
	return &Billing{made}, made.Start()
}

// Close disconnects.
func (b *Billing) Close() error {
	return b.consumer.Shutdown()
}
