package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Record is one line: {"key": base64|null, "value": base64|null, "headers": [[name, base64|null],…], "timestamp_ms": n}.
type Record struct {
	Key         []byte   `json:"key"` // null is nil, which is not empty
	Value       []byte   `json:"value"`
	Headers     []Header `json:"headers"`
	TimestampMs int64    `json:"timestamp_ms"`
}

type Header struct {
	Name  string
	Value []byte
}

func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

func (h *Header) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&h.Name, &h.Value})
}

// Step is one line too: a record, or what a transactional producer does: {"do": "begin"|"commit"|"abort"}.
type Step struct {
	Record
	Do string `json:"do"`
}

// readLines tells each record or step as its line comes; `failed` has one value once `lines` is closed, nil at the end.
// `atEnd` is called when there are no more lines, and may not have been sent yet.
func readLines[T any](in io.Reader, atEnd func()) (lines <-chan T, failed <-chan error) {
	read, done := make(chan T), make(chan error, 1)
	go func() {
		defer close(read)
		defer atEnd()
		decoder := json.NewDecoder(in)
		for {
			var line T
			if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
				done <- nil
				return
			} else if err != nil {
				done <- fmt.Errorf("not a record, nor a step: %w", err)
				return
			}
			read <- line
		}
	}()
	return read, done
}

// roundTrip is the life of a topic as a client's admin calls tell it: named steps, until one fails.
type roundTrip struct {
	did []string
	err error
}

func (r *roundTrip) step(name string, do func() error) {
	if r.err != nil {
		return
	}
	if r.err = do(); r.err != nil {
		r.err = fmt.Errorf("%s: %w", name, r.err)
		return
	}
	r.did = append(r.did, name)
}

func check(what string, got, wanted any) error {
	if got != wanted {
		return fmt.Errorf("%s is %v, not %v", what, got, wanted)
	}
	return nil
}
