package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// An outcome has one of document and failure.
type outcome struct {
	Document any     `json:"document"`
	Failure  *string `json:"failure"`
	TookMs   int64   `json:"tookMs"`
}

// together runs several --commands (comma separated) at once: most of what they do is to wait.
// Each gets a topic and a group of its own, both called --name and the command.
func together(given options) (any, error) {
	outcomes := map[string]outcome{}
	var lock sync.Mutex
	var running sync.WaitGroup
	for _, name := range strings.Split(given["commands"], ",") {
		run, found := commands[name]
		if !found {
			return nil, fmt.Errorf("no command is called %s", name)
		}
		unique := given["name"] + "-" + name
		own := given.with("topic", unique).with("group", unique)
		running.Add(1)
		go func() {
			defer running.Done()
			result := outcomeOf(run, own)
			lock.Lock()
			defer lock.Unlock()
			outcomes[name] = result
		}()
	}
	running.Wait()
	return outcomes, nil
}

func outcomeOf(run command, given options) (result outcome) {
	start := time.Now()
	defer func() {
		if failed := recover(); failed != nil {
			text := fmt.Sprintf("%v\n%s", failed, debug.Stack())
			result.Failure = &text
		}
		result.TookMs = time.Since(start).Milliseconds()
	}()
	document, err := run(given)
	if err != nil {
		text := err.Error()
		return outcome{Failure: &text}
	}
	return outcome{Document: document}
}
