package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	shortTTL     = 500 * time.Millisecond
	firstTTL     = 2 * time.Second
	requestTTL   = 20 * time.Second
	unanswered   = "unanswered"
	answerPrefix = "answer to "
)

type reply struct {
	Body       string            `json:"body"`
	Properties map[string]string `json:"properties"`
}

type requestsSeen struct {
	Waited     reply      `json:"waited"`
	CalledBack reply      `json:"calledBack"`
	Unanswered string     `json:"unanswered"`
	Requests   []delivery `json:"requests"`
}

// requestReply asks a consumer, waiting and with a callback, and once without getting an answer.
func requestReply(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	in := &inbox{}
	answers, err := s.newProducer(s.group + "-answers")
	if err != nil {
		return nil, err
	}
	listen := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.add("answerer", messages)
		for _, request := range messages {
			if request.GetKeys() == unanswered {
				continue
			}
			answer, err := answerTo(request)
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
			if _, err := answers.SendSync(nothing, answer); err != nil {
				return consumer.ConsumeSuccess, err
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if _, err := s.consume(s.group, s.topic, everything, listen); err != nil {
		return nil, err
	}
	if err := s.awaitAnswerable(); err != nil {
		return nil, err
	}
	seen := requestsSeen{Unanswered: "answered"}
	got, err := s.producer.Request(nothing, requestTTL, s.message("waited"))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	seen.Waited = replyOf(got)
	if seen.CalledBack, err = s.requestAsync("called back"); err != nil {
		return nil, err
	}
	if _, err := s.producer.Request(nothing, shortTTL, s.message(unanswered)); err != nil {
		seen.Unanswered = "timeout"
	}
	err = await("the last request", func() bool { return slices.Contains(keysOf(in), unanswered) })
	seen.Requests = in.all()
	return seen, err
}

// awaitAnswerable asks until it is answered for the first time: a reply is lost that is given before
// the broker has the first heartbeat of the producer that asked.
func (s *stage) awaitAnswerable() error {
	return await("a first answer", func() bool {
		_, err := s.producer.Request(nothing, firstTTL, s.message("first"))
		return err == nil
	})
}

// answerTo makes the answer; the client's own function leaves the body out.
func answerTo(request *primitive.MessageExt) (*primitive.Message, error) {
	answer, err := consumer.CreateReplyMessage(request, nil)
	if err != nil {
		return nil, err
	}
	answer.Body = []byte(answerPrefix + request.GetKeys())
	return answer, nil
}

func (s *stage) requestAsync(key string) (reply, error) {
	type answer struct {
		message *primitive.Message
		err     error
	}
	answers := make(chan answer, 1)
	called := func(_ context.Context, message *primitive.Message, err error) {
		answers <- answer{message, err}
	}
	if err := s.producer.RequestAsync(nothing, requestTTL, called, s.message(key)); err != nil {
		return reply{}, fmt.Errorf("request async: %w", err)
	}
	got := <-answers
	if got.err != nil {
		return reply{}, fmt.Errorf("request async: %w", got.err)
	}
	return replyOf(got.message), nil
}

func replyOf(message *primitive.Message) reply {
	return reply{string(message.Body), message.GetProperties()}
}
