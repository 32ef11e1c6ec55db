package orders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var mq *pocketMQ

func TestMain(m *testing.M) {
	rlog.SetLogLevel("error")
	var err error
	if mq, err = startPocketMQ(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := mq.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the cluster did not stop cleanly:", err)
		code = 1
	}
	os.Exit(code)
}

// fresh empties the cluster and makes what the service needs.
func fresh(t *testing.T) *Orders {
	t.Helper()
	mq.ask(t, "POST", "/reset", nil, nil)
	mq.ask(t, "PUT", "/topics/"+Events, map[string]int{"queues": 1}, nil)
	mq.ask(t, "PUT", "/topics/"+Reminders, map[string]int{"queues": 1}, nil)
	mq.ask(t, "PUT", "/groups/"+Group, nil, nil)
	orders, err := NewOrders(mq.Namesrv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = orders.Close() })
	return orders
}

func expect(t *testing.T, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("found %v instead of %v", found, wanted)
	}
}

func TestAReminderComesAfterTwoHours(t *testing.T) {
	if err := fresh(t).Order(context.Background(), "4711", "book"); err != nil {
		t.Fatal(err)
	}
	mq.advance(t, "minutes", 119)
	expect(t, mq.published(t, Reminders, 0), []string{})
	mq.advance(t, "minutes", 1)
	expect(t, mq.published(t, Reminders, 1), []string{"4711"})
}

func TestWhatCannotBeBilledEndsAmongTheDeadLetters(t *testing.T) {
	orders := fresh(t)
	var attempts atomic.Int32
	billing, err := NewBilling(mq.Namesrv, func(string) error {
		attempts.Add(1)
		return errors.New("the bank does not answer")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = billing.Close() })
	if err := orders.Order(context.Background(), "4711", "book"); err != nil {
		t.Fatal(err)
	}
	// Sixteen retries, 10 s to 2 h apart: this consumer gets real time for each.
	mq.ask(t, "POST", "/clock/advance", map[string]any{
		"days":      1,
		"until":     map[string]string{"deadLettersOf": Group},
		"timeoutMs": 60_000,
	}, nil)
	expect(t, attempts.Load(), int32(17))
	expect(t, mq.deadLetters(t, Group), []string{"book"})
}

func TestAnOrderThatTheDiskMayLoseIsAnError(t *testing.T) {
	orders := fresh(t)
	var slow struct{ ID string }
	mq.ask(t, "POST", "/faults", map[string]any{
		"kind": "send_status", "status": "FLUSH_DISK_TIMEOUT", "topic": Events, "times": 1,
	}, &slow)
	if err := orders.Order(context.Background(), "4711", "book"); err == nil {
		t.Fatal("it was taken for safe")
	}
	var fired struct{ Count int }
	mq.ask(t, "DELETE", "/faults/"+slow.ID, nil, &fired)
	expect(t, fired.Count, 1)
	if err := orders.Order(context.Background(), "4711", "book"); err != nil {
		t.Fatal(err)
	}
}
