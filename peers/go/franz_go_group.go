package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const pollTime = 100 * time.Millisecond

var franzGoBalancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	"uniform":            kgo.StickyBalancer(), // asks for the coordinator's assignor of that name
}

// franzGoMember polls, tells of records and does what it is told in one goroutine: a commit covers told records alone.
type franzGoMember struct {
	client *kgo.Client
	topic  string
	work   chan func()
	ended  chan struct{}
}

func (f franzGo) Join(o Options, tell *Events) (Member, error) {
	start := kgo.NewOffset().AtStart()
	if o.Reset == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	told := func(tell func([]int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { tell(numbers(partitions)) }
	}
	settings := []kgo.Opt{
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(o.Topic),
		kgo.Balancers(franzGoBalancers[o.Assignor]),
		kgo.ConsumeResetOffset(start),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(o.sessionTimeout()),
		kgo.HeartbeatInterval(heartbeatInterval),
		kgo.MetadataMinAge(metadataAge),
		kgo.MetadataMaxAge(metadataAge),
		kgo.OnPartitionsAssigned(told(tell.Assigned)),
		kgo.OnPartitionsRevoked(told(tell.Revoked)),
		kgo.OnPartitionsLost(told(tell.Lost)),
	}
	if o.Protocol == "consumer" {
		settings = append(settings, kgo.ServerSideBalancer())
	}
	if strings.HasPrefix(o.Topic, "^") {
		settings = append(settings, kgo.ConsumeRegex())
	}
	if o.Instance != "" {
		settings = append(settings, kgo.InstanceID(o.Instance))
	}
	client, err := f.connect(o, settings...)
	if err != nil {
		return nil, err
	}
	member := franzGoMember{client, o.Topic, make(chan func()), make(chan struct{})}
	go member.run(tell)
	return member, nil
}

// run until the client is closed.
func (m franzGoMember) run(tell *Events) {
	defer close(m.ended)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), pollTime)
		fetched := m.client.PollFetches(ctx)
		cancel()
		if fetched.IsClientClosed() {
			return
		}
		goOnOrFail(fetched.Err(), tell)
		fetched.EachRecord(func(r *kgo.Record) { tell.Record(r.Partition, r.Offset, r.Value) })
		select {
		case work := <-m.work:
			work()
		default:
		}
	}
}

// goOnOrFail takes it that the client joins again by itself where only its session in the group has ended.
func goOnOrFail(err error, tell *Events) {
	var session *kgo.ErrGroupSession
	switch {
	case err == nil || errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &session):
		fmt.Fprintln(os.Stderr, err)
	default:
		tell.Fail(err)
	}
}

func (m franzGoMember) Commit() error {
	committed := make(chan error)
	m.work <- func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		committed <- m.commit(ctx)
	}
	return <-committed
}

// commit returns errNothingCommitted if the client has sent nothing, as when it has just lost its partitions.
func (m franzGoMember) commit(ctx context.Context) error {
	outcome := errNothingCommitted
	m.client.CommitOffsetsSync(ctx, m.client.UncommittedOffsets(), func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		if err != nil {
			outcome = err
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if outcome = kerr.ErrorForCode(partition.ErrorCode); outcome != nil {
					return
				}
			}
		}
	})
	return outcome
}

func (m franzGoMember) Seek(partition int32, offset int64) error {
	to := map[int32]kgo.EpochOffset{partition: {Epoch: -1, Offset: offset}}
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{m.topic: to})
	return nil
}

func (m franzGoMember) Close() error {
	m.client.Close()
	<-m.ended
	return nil
}

// numbers are those of the partitions of all topics.
func numbers(partitions map[string][]int32) []int32 {
	var all []int32
	for _, of := range partitions {
		all = append(all, of...)
	}
	return all
}
