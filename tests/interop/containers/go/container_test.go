package containers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Level 18 of RocketMQ's delays.
const twoHours = 18

func ask(t *testing.T, method, url, body string) string {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %v %s", method, url, err, text)
	}
	return string(text)
}

func TestTwoHoursPassInAContainer(t *testing.T) {
	ctx := context.Background()
	namesrv, control := startPocketMQ(ctx, t)
	ask(t, "PUT", control+"/topics/Orders", `{"queues": 1}`)
	shop, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName("shop"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := shop.Start(); err != nil {
		t.Fatal(err)
	}
	defer shop.Shutdown()
	later := primitive.NewMessage("Orders", []byte("remind")).WithDelayTimeLevel(twoHours)
	result, err := shop.SendSync(ctx, later)
	if err != nil || result.Status != primitive.SendOK {
		t.Fatal(result, err)
	}
	if found := ask(t, "GET", control+"/topics/Orders/messages", ""); strings.Contains(found, "remind") {
		t.Fatal("too early: " + found)
	}
	ask(t, "POST", control+"/clock/advance", `{"hours": 2}`)
	if found := ask(t, "GET", control+"/topics/Orders/messages?waitFor=1", ""); !strings.Contains(found, "remind") {
		t.Fatal(found)
	}
}
