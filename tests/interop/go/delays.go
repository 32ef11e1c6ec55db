package main

import "strconv"

type delaysSeen struct {
	Sent       []sent     `json:"sent"`
	Deliveries []delivery `json:"deliveries"`
}

// delays sends a message of each of the first levels, and one without.
func delays(given options) (any, error) {
	s, err := newStage(given, 1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	seen := delaysSeen{}
	in := &inbox{}
	if _, err := s.member("consumer", in); err != nil {
		return nil, err
	}
	for level := range 3 {
		message := s.message(strconv.Itoa(level))
		if level > 0 {
			message.WithDelayTimeLevel(level)
		}
		result, err := s.producer.SendSync(nothing, message)
		if err != nil {
			return nil, err
		}
		seen.Sent = append(seen.Sent, sentOf("delay", message.GetKeys(), result))
	}
	seen.Deliveries, err = in.await("delayed messages", len(seen.Sent))
	return seen, err
}
