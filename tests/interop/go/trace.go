package main

import (
	"strings"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	fieldSeparator  = "\x01"
	recordSeparator = "\x02"
	// One of the producer, two of the consumer.
	recordsOfOne = 3
)

type traceSeen struct {
	Topic   string     `json:"topic"`
	Group   string     `json:"group"`
	MsgID   string     `json:"msgId"`
	Records [][]string `json:"records"`
}

// traces has a producer and a consumer leave a trace, in a topic of its own, and reads it.
func traces(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	traceTopic := s.topic + "-records"
	if err := s.createTopic(traceTopic, 1); err != nil {
		return nil, err
	}
	config := func() *primitive.TraceConfig {
		return &primitive.TraceConfig{
			TraceTopic: traceTopic,
			GroupName:  s.group,
			Access:     primitive.Local,
			Resolver:   s.resolver,
		}
	}
	traced, err := s.newProducer(s.group, producer.WithTrace(config()))
	if err != nil {
		return nil, err
	}
	in := &inbox{}
	if _, err := s.member("consumer", in, consumer.WithTrace(config())); err != nil {
		return nil, err
	}
	result, err := traced.SendSync(nothing, s.message("traced"))
	if err != nil {
		return nil, err
	}
	if _, err := in.await("the traced message", 1); err != nil {
		return nil, err
	}
	seen := traceSeen{Topic: s.topic, Group: s.group, MsgID: result.MsgID}
	_, err = s.readUntil(traceTopic, func(stored []received) bool {
		seen.Records = traceRecords(stored)
		return len(seen.Records) >= recordsOfOne
	})
	return seen, err
}

func traceRecords(stored []received) [][]string {
	var records [][]string
	for _, message := range stored {
		for _, record := range strings.Split(message.Body, recordSeparator) {
			if record != "" {
				records = append(records, strings.Split(record, fieldSeparator))
			}
		}
	}
	return records
}
