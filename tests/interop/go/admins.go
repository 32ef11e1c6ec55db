package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
)

const changeWait = time.Second

type adminSeen struct {
	Queues       []int  `json:"queues"`
	Listed       bool   `json:"listed"`
	GroupListed  bool   `json:"groupListed"`
	Changed      int    `json:"changed"`
	Deleted      bool   `json:"deleted"`
	MissingError string `json:"missingError"`
}

// admins creates a topic, looks it up, changes it and deletes it.
func admins(given options) (any, error) {
	s, err := newStage(given, 3)
	if err != nil {
		return nil, err
	}
	defer s.close()
	seen := adminSeen{}
	for _, queue := range s.queues {
		seen.Queues = append(seen.Queues, queue.QueueId)
	}
	if _, err := s.member("consumer", &inbox{}); err != nil {
		return nil, err
	}
	err = patiently("all topics", func() error {
		topics, err := s.operator.FetchAllTopicList(nothing)
		seen.Listed = err == nil && slices.Contains(topics.TopicList, s.topic)
		return err
	})
	if err != nil {
		return nil, err
	}
	groups, err := s.operator.GetAllSubscriptionGroup(nothing, s.broker, callTimeout)
	if err != nil {
		return nil, err
	}
	_, seen.GroupListed = groups.SubscriptionGroupTable[s.group]
	other := s.topic + "-other"
	if err := s.createTopic(other, 1); err != nil {
		return nil, err
	}
	if seen.Changed, err = s.changeTopic(other, 1, 5); err != nil {
		return nil, err
	}
	err = patiently("delete topic "+other, func() error {
		return s.operator.DeleteTopic(nothing, admin.WithTopicDelete(other),
			admin.WithBrokerAddrDelete(s.broker), admin.WithNameSrvAddr([]string{s.namesrv}))
	})
	if err != nil {
		return nil, err
	}
	err = await("the topic is gone", func() bool {
		topics, err := s.operator.FetchAllTopicList(nothing)
		return err == nil && !slices.Contains(topics.TopicList, other)
	})
	seen.Deleted = err == nil
	if _, missing := s.operator.FetchPublishMessageQueues(nothing, other+"-never"); missing != nil {
		seen.MissingError = missing.Error()
	}
	return seen, err
}

// changeTopic gives a topic another number of queues and waits until its route shows them.
//
// First it waits for the route as it was made: of two registrations at once Apache's name server may
// keep the first, and its broker sends no other for a change that it has already made.
func (s *stage) changeTopic(topic string, before, after int) (int, error) {
	if err := s.awaitRoute(topic, before); err != nil {
		return 0, err
	}
	if err := s.createTopic(topic, after); err != nil {
		return 0, err
	}
	return after, s.awaitRoute(topic, after)
}

// awaitRoute waits until a topic has so many queues by its route.
func (s *stage) awaitRoute(topic string, count int) error {
	found := 0
	var failed error
	err := await("the route of "+topic, func() bool {
		found, failed = s.routed(topic)
		if failed == nil && found == count {
			return true
		}
		time.Sleep(changeWait)
		return false
	})
	if err != nil {
		return fmt.Errorf("%w; last: %d queues, %v", err, found, failed)
	}
	return nil
}

// routed counts the queues of a topic by a new operator, because one keeps what it once looked up.
func (s *stage) routed(topic string) (int, error) {
	operator, err := admin.NewAdmin(admin.WithResolver(s.resolver), admin.WithCredentials(s.credentials))
	if err != nil {
		return 0, err
	}
	defer operator.Close()
	queues, err := operator.FetchPublishMessageQueues(nothing, topic)
	return len(queues), err
}
