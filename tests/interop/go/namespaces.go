package main

import (
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const namespace = "golang"

type namespacesSeen struct {
	Topic      string     `json:"topic"`
	Deliveries []delivery `json:"deliveries"`
	Stored     []received `json:"stored"`
}

// namespaces sends and receives inside a namespace, and reads what there is outside of it.
func namespaces(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	whole := namespace + "%" + s.topic
	if err := s.createTopic(whole, 1); err != nil {
		return nil, err
	}
	inside, err := s.newProducer(s.group, producer.WithNamespace(namespace))
	if err != nil {
		return nil, err
	}
	in := &inbox{}
	if _, err := s.member("consumer", in, consumer.WithNamespace(namespace)); err != nil {
		return nil, err
	}
	message := primitive.NewMessage(s.topic, []byte("inside"))
	message.WithKeys([]string{"inside"})
	if _, err := inside.SendSync(nothing, message); err != nil {
		return nil, err
	}
	seen := namespacesSeen{Topic: s.topic}
	if seen.Deliveries, err = in.await("the message of the namespace", 1); err != nil {
		return nil, err
	}
	seen.Stored, err = s.readAll(whole, 1)
	return seen, err
}
