package main

import (
	"reflect"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
)

type controlSeen struct {
	Deliveries   []delivery `json:"deliveries"`
	Behind       int64      `json:"behind"`
	Unsubscribed bool       `json:"unsubscribed"`
}

// control suspends and resumes a consumer, asks how far it is behind, and has it and a pull consumer
// leave the topic. (It is resumed at once: a consumer that saw that it is suspended looks again
// after 30 s.)
func control(given options) (any, error) {
	const early, late = 6, 10
	s, err := newStage(given, 2)
	if err != nil {
		return nil, err
	}
	defer s.close()
	in := &inbox{}
	member, err := s.member("member", in)
	if err != nil {
		return nil, err
	}
	if err := s.send(0, early); err != nil {
		return nil, err
	}
	if err := await("all before", func() bool { return distinct(in, early) }); err != nil {
		return nil, err
	}
	member.Suspend()
	member.Resume()
	if err := s.send(early, late); err != nil {
		return nil, err
	}
	if err := await("all after", func() bool { return distinct(in, late) }); err != nil {
		return nil, err
	}
	seen := controlSeen{Deliveries: in.all()}
	err = await("nothing is left", func() bool {
		behind, isKnown := member.GetOffsetDiffMap()[s.topic]
		seen.Behind = behind
		return isKnown && behind == 0
	})
	if err != nil {
		return nil, err
	}
	reader, err := s.puller(s.group+"-reader", s.topic, everything)
	if err != nil {
		return nil, err
	}
	if err := member.Unsubscribe(s.topic); err != nil {
		return nil, err
	}
	seen.Unsubscribed = reader.Unsubscribe(s.topic) == nil
	return seen, nil
}

// methods lists what the client's interfaces have, by reflection.
func methods(options) (any, error) {
	found := map[string][]string{}
	for name, of := range map[string]reflect.Type{
		"Producer":            reflect.TypeOf((*rocketmq.Producer)(nil)).Elem(),
		"TransactionProducer": reflect.TypeOf((*rocketmq.TransactionProducer)(nil)).Elem(),
		"PushConsumer":        reflect.TypeOf((*rocketmq.PushConsumer)(nil)).Elem(),
		"PullConsumer":        reflect.TypeOf((*rocketmq.PullConsumer)(nil)).Elem(),
		"Admin":               reflect.TypeOf((*admin.Admin)(nil)).Elem(),
	} {
		for i := 0; i < of.NumMethod(); i++ {
			found[name] = append(found[name], of.Method(i).Name)
		}
	}
	return found, nil
}
