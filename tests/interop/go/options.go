package main

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// options are the --name value pairs after the command.
type options map[string]string

func parse(arguments []string) (options, error) {
	found := options{}
	for i := 0; i < len(arguments); i += 2 {
		name, isName := strings.CutPrefix(arguments[i], "--")
		if !isName || i+1 == len(arguments) {
			return nil, fmt.Errorf("expected --name value, got %s", arguments[i])
		}
		found[name] = arguments[i+1]
	}
	for _, name := range []string{"namesrv", "broker"} {
		if found[name] == "" {
			return nil, fmt.Errorf("--%s is required", name)
		}
	}
	return found, nil
}

// with returns the same options with one of them set.
func (o options) with(name, value string) options {
	changed := maps.Clone(o)
	changed[name] = value
	return changed
}

func (o options) number(name string, otherwise int) int {
	count, err := strconv.Atoi(o[name])
	if err != nil {
		return otherwise
	}
	return count
}

func (o options) seconds(name string, otherwise time.Duration) time.Duration {
	return time.Duration(o.number(name, int(otherwise/time.Second))) * time.Second
}
