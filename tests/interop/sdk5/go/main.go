// Command sdk5 plays all scenarios with RocketMQ 5's SDK for Go, and prints one JSON document.
//
// Arguments: endpoints, "tls" or "plain", access key, secret.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const patience = 40 * time.Second

var (
	config = rmq.Config{Credentials: &credentials.SessionCredentials{}}
	seen   = map[string]any{}
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func configOf(group string) *rmq.Config {
	out := config
	out.ConsumerGroup = group
	return &out
}

func producer(topic string, options ...rmq.ProducerOption) rmq.Producer {
	out := must(rmq.NewProducer(configOf(""), append(options, rmq.WithTopics(topic))...))
	check(out.Start())
	return out
}

func message(topic, body string) *rmq.Message {
	return &rmq.Message{Topic: topic, Body: []byte(body)}
}

func send(producer rmq.Producer, message *rmq.Message) *rmq.SendReceipt {
	return must(producer.Send(context.Background(), message))[0]
}

func simpleConsumer(group, topic string, filter *rmq.FilterExpression) rmq.SimpleConsumer {
	out := must(rmq.NewSimpleConsumer(
		configOf(group),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: filter}),
	))
	check(out.Start())
	return out
}

// received returns the bodies in order; long ones by their length.
func received(
	group, topic string, filter *rmq.FilterExpression, count int,
	handle func(rmq.SimpleConsumer, *rmq.MessageView),
) []string {
	consumer := simpleConsumer(group, topic, filter)
	bodies := []string{}
	for end := time.Now().Add(patience); len(bodies) < count && time.Now().Before(end); {
		views, err := consumer.Receive(context.Background(), 16, 30*time.Second)
		if err != nil {
			continue // there was no message
		}
		for _, view := range views {
			body := string(view.GetBody())
			if len(body) > 100 {
				body = fmt.Sprintf("long %d", len(body))
			}
			bodies = append(bodies, body)
			if handle != nil {
				handle(consumer, view)
			}
			check(consumer.Ack(context.Background(), view))
		}
	}
	check(consumer.GracefulStop())
	slices.Sort(bodies)
	return bodies
}

func simple() {
	producer := producer("Normal")
	first := message("Normal", "first")
	first.SetTag("A")
	first.SetKeys("k1")
	first.AddProperty("p", "v")
	send(producer, first)
	unwanted := message("Normal", "unwanted")
	unwanted.SetTag("B")
	send(producer, unwanted)
	long := message("Normal", strings.Repeat("x", 4*1024*1024))
	long.SetTag("A")
	send(producer, long)
	check(producer.GracefulStop())
	handle := func(consumer rmq.SimpleConsumer, view *rmq.MessageView) {
		if string(view.GetBody()) == "first" {
			seen["properties"], seen["keys"] = view.GetProperties(), view.GetKeys()
			check(consumer.ChangeInvisibleDuration(view, time.Minute))
		}
	}
	seen["simple"] = received("simple", "Normal", rmq.NewFilterExpression("A"), 2, handle)
}

func filters() {
	producer := producer("Filtered")
	for a := range 5 {
		one := message("Filtered", fmt.Sprintf("a%d", a+1))
		one.AddProperty("a", fmt.Sprint(a+1))
		send(producer, one)
	}
	check(producer.GracefulStop())
	filter := rmq.NewFilterExpressionWithType("a > 3 AND a IS NOT NULL", rmq.SQL92)
	seen["filtered"] = received("filtered", "Filtered", filter, 2, nil)
}

func batch() {
	producer := producer("Batch")
	for i := range 32 {
		send(producer, message("Batch", fmt.Sprintf("m%d", i)))
	}
	check(producer.GracefulStop())
	consumer := simpleConsumer("batch", "Batch", rmq.SUB_ALL)
	bodies := []string{}
	for _, view := range must(consumer.Receive(context.Background(), 32, 30*time.Second)) {
		bodies = append(bodies, string(view.GetBody()))
		check(consumer.Ack(context.Background(), view))
	}
	check(consumer.GracefulStop())
	seen["batch"] = bodies
}

// remoting receives what a client of remoting has sent, compressed.
func remoting() {
	seen["remoting"] = received("remoting", "Remoting", rmq.SUB_ALL, 1, nil)
}

type delivery struct {
	body    string
	attempt int32
}

func pushed(topic, group string, count int, isGood func(delivery) bool) []delivery {
	var mutex sync.Mutex
	var got []delivery
	done := make(chan struct{})
	listener := &rmq.FuncMessageListener{Consume: func(view *rmq.MessageView) rmq.ConsumerResult {
		one := delivery{string(view.GetBody()), view.GetDeliveryAttempt()}
		mutex.Lock()
		defer mutex.Unlock()
		got = append(got, one)
		if len(got) == count {
			close(done)
		}
		if isGood(one) {
			return rmq.SUCCESS
		}
		return rmq.FAILURE
	}}
	consumer := must(rmq.NewPushConsumer(
		configOf(group),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(listener),
		rmq.WithPushConsumptionThreadCount(4),
		rmq.WithPushMaxCacheMessageCount(64),
	))
	check(consumer.Start())
	select {
	case <-done:
	case <-time.After(patience):
	}
	time.Sleep(2 * time.Second)
	// It is not stopped: that would wait for the receives that are held, 20 seconds.
	mutex.Lock()
	defer mutex.Unlock()
	return got
}

func push() {
	producer := producer("Push")
	for i := range 5 {
		send(producer, message("Push", fmt.Sprintf("m%d", i)))
	}
	check(producer.GracefulStop())
	texts := []string{}
	for _, one := range pushed("Push", "push", 7, func(one delivery) bool {
		return one.body != "m1" && (one.body != "m0" || one.attempt > 1)
	}) {
		texts = append(texts, fmt.Sprintf("%s/%d", one.body, one.attempt))
	}
	slices.Sort(texts)
	seen["push"] = texts
}

func order() {
	producer := producer("Ordered")
	for i := range 6 {
		one := message("Ordered", fmt.Sprintf("m%d", i))
		one.SetMessageGroup("g")
		send(producer, one)
	}
	check(producer.GracefulStop())
	bodies := []string{}
	for _, one := range pushed("Ordered", "ordered", 6, func(delivery) bool { return true }) {
		bodies = append(bodies, one.body)
	}
	seen["ordered"] = bodies
}

func delay() {
	producer := producer("Delayed")
	due := time.Now().Add(3 * time.Second)
	later, never := message("Delayed", "later"), message("Delayed", "never")
	later.SetDelayTimestamp(due)
	never.SetDelayTimestamp(due)
	send(producer, later)
	receipt := send(producer, never)
	id := must(producer.Recall(context.Background(), "Delayed", receipt.RecallHandle))
	seen["recalled"] = id == receipt.MessageID
	bodies := received("delayed", "Delayed", rmq.SUB_ALL, 1, nil)
	if time.Now().Before(due) {
		bodies = append(bodies, "early")
	}
	seen["delayed"] = bodies
	check(producer.GracefulStop())
}

func transactions() {
	checker := &rmq.TransactionChecker{
		Check: func(half *rmq.MessageView) rmq.TransactionResolution {
			if string(half.GetBody()) == "orphan" {
				return rmq.COMMIT
			}
			return rmq.ROLLBACK
		},
	}
	producer := producer("Half", rmq.WithTransactionChecker(checker))
	for _, body := range []string{"committed", "rolled back", "orphan"} {
		transaction := producer.BeginTransaction()
		half := message("Half", body)
		must(producer.SendWithTransaction(context.Background(), half, transaction))
		switch body {
		case "committed":
			check(transaction.Commit())
		case "rolled back":
			check(transaction.RollBack())
		}
	}
	seen["transactions"] = received("half", "Half", rmq.SUB_ALL, 2, nil)
	check(producer.GracefulStop())
}

// restart goes on by itself after its broker was gone; a line of standard input tells that it was.
func restart() {
	producer := producer("Normal")
	send(producer, message("Normal", "before"))
	consumer := simpleConsumer("restart", "Normal", rmq.SUB_ALL)
	bodies, isSent := []string{}, false
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if slices.Contains(bodies, "before") && !isSent {
			fmt.Println("ready")
			must(bufio.NewReader(os.Stdin).ReadString('\n'))
			for ; !isSent && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				_, err := producer.Send(context.Background(), message("Normal", "after"))
				isSent = err == nil
			}
		}
		if slices.Contains(bodies, "after") {
			break
		}
		views, err := consumer.Receive(context.Background(), 16, 30*time.Second)
		if err != nil {
			continue // there was no message, or the broker is not back
		}
		for _, view := range views {
			bodies = append(bodies, string(view.GetBody()))
			check(consumer.Ack(context.Background(), view))
		}
	}
	slices.Sort(bodies)
	seen["restart"] = slices.Compact(bodies)
}

func main() {
	config.Endpoint = os.Args[1]
	rmq.EnableSsl = os.Args[2] == "tls"
	if len(os.Args) > 4 {
		config.Credentials.AccessKey, config.Credentials.AccessSecret = os.Args[3], os.Args[4]
	}
	scenarios := []func(){simple, filters, batch, remoting, push, order, delay, transactions}
	if slices.Contains(os.Args, "restart") {
		scenarios = []func(){restart}
	}
	for _, scenario := range scenarios {
		scenario()
	}
	check(json.NewEncoder(os.Stdout).Encode(seen))
	os.Exit(0)
}
