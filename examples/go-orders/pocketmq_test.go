package orders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"
)

// A pocketMQ is a cluster in a process of its own, which ends with this one at the latest.
type pocketMQ struct {
	Namesrv string `json:"namesrv"`
	Control string `json:"control"`

	process *exec.Cmd
	stdin   io.Closer
}

func startPocketMQ() (*pocketMQ, error) {
	program := os.Getenv("POCKETMQ")
	if program == "" {
		program = "pocketmq"
	}
	command := exec.Command(program, "up", "--memory", "--namesrv-port", "0", "--broker-port", "0",
		"--control", "0", "--output", "json", "--stop-with-stdin")
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %v, its reason is above", program, command.Wait())
	}
	mq := &pocketMQ{process: command, stdin: stdin}
	return mq, json.Unmarshal(line, mq)
}

func (mq *pocketMQ) stop() error {
	_ = mq.stdin.Close()
	return mq.process.Wait()
}

// ask asks the control API; all that can be asked is at /openapi.json.
func (mq *pocketMQ) ask(t *testing.T, method, path string, body any, answer any) {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if body == nil {
		content = nil
	}
	request, err := http.NewRequest(method, mq.Control+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			t.Fatal(err)
		}
	}
}

// advance sets the cluster's clock forward: advance(t, "hours", 2).
func (mq *pocketMQ) advance(t *testing.T, unit string, count int) {
	t.Helper()
	mq.ask(t, "POST", "/clock/advance", map[string]int{unit: count}, nil)
}

// published tells what a topic holds, once it holds so many; nothing is consumed.
func (mq *pocketMQ) published(t *testing.T, topic string, count int) []string {
	t.Helper()
	return mq.bodies(t, fmt.Sprintf("/topics/%s/messages?waitFor=%d", url.PathEscape(topic), count))
}

// deadLetters tells what was given up for a group.
func (mq *pocketMQ) deadLetters(t *testing.T, group string) []string {
	t.Helper()
	return mq.bodies(t, "/groups/"+url.PathEscape(group)+"/dead-letters")
}

func (mq *pocketMQ) bodies(t *testing.T, path string) []string {
	t.Helper()
	var answer struct {
		Messages []struct{ Body string }
	}
	mq.ask(t, "GET", path, nil, &answer)
	found := []string{}
	for _, message := range answer.Messages {
		found = append(found, message.Body)
	}
	return found
}
