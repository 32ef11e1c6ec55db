// Command probe drives a cluster with Apache's Go client and prints what it saw as one JSON
// document.
//
// usage: probe COMMAND --namesrv HOST:PORT --broker HOST:PORT --topic T --group G
// usage: probe together --commands C,D --name NAME --namesrv HOST:PORT --broker HOST:PORT
//
// Exit codes: 0 the document is on stdout, 1 the command failed (the reason is on stderr), 2 wrong
// usage, 3 the deadline (--deadline-s, default 60) passed.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/pprof"
	"sort"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	exitFailed   = 1
	exitUsage    = 2
	exitDeadline = 3
)

// A command returns anything that JSON can hold.
type command func(options) (any, error)

var commands map[string]command

// Not an initial value: together refers to the table.
func init() {
	commands = map[string]command{
		"admin":           admins,
		"broadcasting":    broadcasting,
		"clustering":      clustering,
		"control":         control,
		"delays":          delays,
		"failover":        failover,
		"filters":         filters,
		"methods":         methods,
		"namespaces":      namespaces,
		"orderly":         orderly,
		"orderly-retries": orderlyRetries,
		"poll":            poll,
		"pull":            pull,
		"request-reply":   requestReply,
		"retries":         retries,
		"sends":           sends,
		"together":        together,
		"trace":           traces,
		"transactions":    transactions,
	}
}

func main() {
	// The client may write to os.Stdout; the document must be there alone.
	document := os.Stdout
	os.Stdout = os.Stderr
	rlog.SetLogLevel("error")
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	run, found := commands[name]
	if !found {
		exit(exitUsage, "usage: probe "+strings.Join(names(), "|")+" [--name value]...")
	}
	given, err := parse(os.Args[2:])
	if err != nil {
		exit(exitUsage, err.Error())
	}
	startDeadline(given.seconds("deadline-s", 60*time.Second))
	seen, err := run(given)
	if err != nil {
		exit(exitFailed, fmt.Sprintf("%s failed: %v", name, err))
	}
	text, err := json.Marshal(seen)
	if err != nil {
		exit(exitFailed, err.Error())
	}
	fmt.Fprintln(document, string(text))
}

// names lists the commands.
func names() []string {
	var all []string
	for name := range commands {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

// startDeadline ends the process if it outlives the deadline, with the stacks that show where it
// waited.
func startDeadline(deadline time.Duration) {
	time.AfterFunc(deadline, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		exit(exitDeadline, fmt.Sprintf("deadline of %v passed", deadline))
	})
}

func exit(code int, reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(code)
}
