package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	heartbeatInterval = 500 * time.Millisecond
	metadataAge       = 2 * time.Second
)

var errNothingCommitted = errors.New("nothing was committed")

// Member is a member of a group that reads.
type Member interface {
	// Commit commits how far it has read. It may return errNothingCommitted.
	Commit() error
	Seek(partition int32, offset int64) error
	// Close leaves the group, unless there is an instance id.
	Close() error
}

// Events prints events as they happen, each as a line.
type Events struct {
	mutex sync.Mutex
	lines *json.Encoder
}

func (e *Events) Assigned(partitions []int32) { e.tell("assigned", orEmpty(partitions)) }
func (e *Events) Revoked(partitions []int32)  { e.tell("revoked", orEmpty(partitions)) }
func (e *Events) Lost(partitions []int32)     { e.tell("lost", orEmpty(partitions)) }
func (e *Events) Record(partition int32, offset int64, value []byte) {
	e.tell("record", map[string]any{"partition": partition, "offset": offset, "value": value})
}

func (e *Events) tell(what string, value any) {
	e.tellAll(map[string]any{what: value})
}

func (e *Events) tellAll(fields map[string]any) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	fields["at_ns"] = now()
	if e.lines.Encode(fields) != nil {
		os.Exit(1) // no process reads the output
	}
}

// now returns the time of the clock that all processes of the machine share.
func now() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}

// Fail ends the process of a member that can't go on.
func (e *Events) Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// beMember takes commands from stdin until it is told to close.
func beMember(client Client, o Options) error {
	events := &Events{lines: json.NewEncoder(os.Stdout)}
	member, err := client.Join(o, events)
	if err != nil {
		return err
	}
	for commands := bufio.NewScanner(os.Stdin); commands.Scan() && commands.Text() != "close"; {
		if commands.Text() == "commit" {
			commit(member, events)
		} else if err := do(member, commands.Text()); err != nil {
			return errors.Join(err, member.Close())
		} else {
			events.tell("done", commands.Text())
		}
	}
	return member.Close()
}

// commit prints its outcome. A member goes on if its commit was refused.
func commit(member Member, events *Events) {
	answer := map[string]any{"asked_ns": now()}
	if err := member.Commit(); errors.Is(err, errNothingCommitted) {
		answer["done"], answer["nothing"] = "commit", true
	} else if err != nil {
		answer["failed"], answer["error"] = "commit", err.Error()
	} else {
		answer["done"] = "commit"
	}
	events.tellAll(answer)
}

func do(member Member, command string) error {
	if !strings.HasPrefix(command, "seek ") {
		return fmt.Errorf("no command %q", command)
	}
	var partition int32
	var offset int64
	if _, err := fmt.Sscanf(command, "seek %d %d", &partition, &offset); err != nil {
		return err
	}
	return member.Seek(partition, offset)
}

// orEmpty returns a list that is never null in JSON.
func orEmpty(partitions []int32) []int32 {
	if partitions == nil {
		return []int32{}
	}
	return partitions
}
