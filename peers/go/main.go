// The Go clients behind the protocol of peers/driver.py: `clients <client> produce|consume|transact|transform|offset-for-time|admin|group|version JSON`.
//
// <client> is franz-go or sarama, or sarama-for-2.1: with the setting that applications have from the days of Kafka 2.1.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

const (
	limit           = 30 * time.Second
	maxMessageBytes = 10_000_000
)

// Options are of one command; each command has its own part of them.
type Options struct {
	Bootstrap       string `json:"bootstrap"`
	Topic           string `json:"topic"`
	Acks            int    `json:"acks"`
	Codec           string `json:"codec"`
	Idempotent      bool   `json:"idempotent"`
	Partition       int32  `json:"partition"`
	Partitions      int32  `json:"partitions"`
	Count           int    `json:"count"`
	Offset          int64  `json:"offset"`
	Isolation       string `json:"isolation"`
	TimestampMs     int64  `json:"timestamp_ms"`
	Op              string `json:"op"`
	Group           string `json:"group"`
	Source          string `json:"source"`
	End             string `json:"end"`
	TransactionalID string `json:"transactional_id"`
	Assignor        string `json:"assignor"`
	Instance        string `json:"instance"`
	Reset           string `json:"reset"`
	Protocol        string `json:"protocol"`
	SessionMs       int    `json:"session_ms"`
	SlowMs          int    `json:"slow_ms"`
}

func (o Options) seeds() []string { return strings.Split(o.Bootstrap, ",") }

func (o Options) sessionTimeout() time.Duration {
	return time.Duration(o.SessionMs) * time.Millisecond
}

// Client is what each library does for the tests.
type Client interface {
	// Produce sends each record as it comes, and returns their offsets in that order.
	Produce(ctx context.Context, o Options, records <-chan Record) ([]int64, error)
	Consume(ctx context.Context, o Options) ([]Record, error)
	// Transact takes over the transactional id, then each step as it comes.
	Transact(ctx context.Context, o Options, steps <-chan Step) error
	// Transform copies records, as a member of the group, in one transaction with its offsets.
	Transform(ctx context.Context, o Options) error
	// OffsetForTime is nil where no record is as late.
	OffsetForTime(ctx context.Context, o Options) (*int64, error)
	// Admin takes a topic through its life, and returns the names of the steps that it has done.
	Admin(ctx context.Context, o Options) ([]string, error)
	// Join tells of the member's events until it is closed.
	Join(o Options, tell *Events) (Member, error)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("usage: clients <client> <command> [JSON]")
	}
	client, module, err := clientNamed(arguments[0])
	if err != nil {
		return err
	}
	options := Options{Acks: -1, Codec: "none", Partitions: 1, Protocol: "classic", SessionMs: 30_000}
	if len(arguments) > 2 {
		if err := json.Unmarshal([]byte(arguments[2]), &options); err != nil {
			return err
		}
	}
	switch arguments[1] {
	case "group":
		return beMember(client, options)
	case "by-hand":
		return beMemberByHand(options)
	case "rebalance":
		return measureRebalance(options)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	startClock := func() { time.AfterFunc(limit, func() { cancel(fmt.Errorf("not done in %s", limit)) }) }
	if arguments[1] != "produce" && arguments[1] != "transact" {
		startClock()
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	answer := json.NewEncoder(out)

	switch arguments[1] {
	case "version":
		return answer.Encode(map[string]string{"name": arguments[0], "version": moduleVersion(module)})
	case "produce":
		records, failed := readLines[Record](os.Stdin, startClock)
		offsets, err := client.Produce(ctx, options, records)
		if err != nil {
			return err
		}
		if err := <-failed; err != nil {
			return err
		}
		for _, offset := range offsets {
			if options.Acks == 0 {
				offset = -1
			}
			if err := answer.Encode(map[string]int64{"offset": offset}); err != nil {
				return err
			}
		}
		return nil
	case "consume":
		records, err := client.Consume(ctx, options)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := answer.Encode(record); err != nil {
				return err
			}
		}
		return nil
	case "transact":
		steps, failed := readLines[Step](os.Stdin, startClock)
		if err := client.Transact(ctx, options, steps); err != nil {
			return err
		}
		return <-failed
	case "transform":
		return client.Transform(ctx, options)
	case "offset-for-time":
		offset, err := client.OffsetForTime(ctx, options)
		if err != nil {
			return err
		}
		return answer.Encode(map[string]*int64{"offset": offset})
	case "admin":
		if options.Op != "roundtrip" {
			return fmt.Errorf("no admin op %q", options.Op)
		}
		did, err := client.Admin(ctx, options)
		if err != nil {
			return fmt.Errorf("after %v: %w", did, err)
		}
		return answer.Encode(map[string]any{"ok": true, "did": did})
	}
	return fmt.Errorf("no command %q", arguments[1])
}

// clientNamed is the client, and the module that it is of.
func clientNamed(name string) (client Client, module string, err error) {
	switch name {
	case "franz-go":
		return franzGo{}, "github.com/twmb/franz-go", nil
	case "sarama":
		return saramaClient{}, "github.com/IBM/sarama", nil
	case "sarama-for-2.1":
		return saramaClient{kafka: "2.1.0"}, "github.com/IBM/sarama", nil
	}
	return nil, "", fmt.Errorf("no client %q", name)
}

// moduleVersion is as go.mod has it.
func moduleVersion(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return ""
}
