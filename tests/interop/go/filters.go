package main

import (
	"fmt"
	"strconv"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

const (
	filtered  = 30
	tagFilter = "T1 || T2"
	sqlFilter = "(number BETWEEN 5 AND 14 AND colour IN ('red', 'blue')) OR TAGS = 'T9' OR extra IS NOT NULL"
)

var colours = []string{"red", "green", "blue"}

type filtersSeen struct {
	BySQL  []string `json:"bySql"`
	ByTags []string `json:"byTags"`
}

// How many messages match each filter.
var matches = map[string]int{"sql": 10, "tags": 8}

// filters subscribes by tags and by SQL92. The last two messages match both, so whoever has them has
// passed all the others of their queues.
func filters(given options) (any, error) {
	s, err := newStage(given, 2)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.sendFiltered(); err != nil {
		return nil, err
	}
	selectors := map[string]consumer.MessageSelector{
		"sql":  {Type: consumer.SQL92, Expression: sqlFilter},
		"tags": {Type: consumer.TAG, Expression: tagFilter},
	}
	inboxes := map[string]*inbox{}
	for name, selector := range selectors {
		in := &inbox{}
		inboxes[name] = in
		_, err := s.consume(s.group+"-"+name, s.topic, selector, accept(name, in))
		if err != nil {
			return nil, err
		}
	}
	for name, in := range inboxes {
		// Messages are delivered side by side: earlier ones may come after the last.
		complete := func() bool { return len(in.all()) >= matches[name] && lastTwo(in) }
		if err := await("every message by "+name, complete); err != nil {
			return nil, fmt.Errorf("%w; delivered: %s", err, in.summary())
		}
	}
	return filtersSeen{keysOf(inboxes["sql"]), keysOf(inboxes["tags"])}, nil
}

func (s *stage) sendFiltered() error {
	for number := range filtered {
		message := s.message(strconv.Itoa(number))
		message.WithTag("T" + strconv.Itoa(number%10))
		message.WithProperty("number", strconv.Itoa(number))
		message.WithProperty("colour", colours[number%len(colours)])
		if number >= filtered-2 {
			message.WithTag("T1")
			message.WithProperty("extra", "yes")
		}
		if _, err := s.producer.SendSync(nothing, message); err != nil {
			return err
		}
	}
	return nil
}

func lastTwo(in *inbox) bool {
	found := 0
	for _, one := range in.all() {
		if number, _ := strconv.Atoi(one.Message.Keys); number >= filtered-2 {
			found++
		}
	}
	return found == 2
}

func keysOf(in *inbox) []string {
	keys := []string{}
	for _, one := range in.all() {
		keys = append(keys, one.Message.Keys)
	}
	return keys
}
