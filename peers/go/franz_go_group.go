package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franzGoMember struct {
	client *kgo.Client
	topic  string
}

func (f franzGo) Join(o Options, tell *Events) (Member, error) {
	balancer := kgo.RangeBalancer()
	if o.Assignor == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	start := kgo.NewOffset().AtStart()
	if o.Reset == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	revoked := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		tell.Revoked(partitions[o.Topic])
	}
	settings := []kgo.Opt{
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(o.Topic),
		kgo.Balancers(balancer),
		kgo.ConsumeResetOffset(start),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(heartbeatInterval),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			tell.Assigned(partitions[o.Topic])
		}),
		kgo.OnPartitionsRevoked(revoked),
		kgo.OnPartitionsLost(revoked),
	}
	if o.Instance != "" {
		settings = append(settings, kgo.InstanceID(o.Instance))
	}
	client, err := f.connect(o, settings...)
	if err != nil {
		return nil, err
	}
	go poll(client, tell)
	return franzGoMember{client, o.Topic}, nil
}

// poll until the client is closed.
func poll(client *kgo.Client, tell *Events) {
	for {
		fetched := client.PollFetches(context.Background())
		if fetched.IsClientClosed() {
			return
		}
		if err := fetched.Err(); err != nil {
			tell.Fail(err)
		}
		fetched.EachRecord(func(r *kgo.Record) { tell.Record(r.Partition, r.Offset, r.Value) })
	}
}

func (m franzGoMember) Commit() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return m.client.CommitUncommittedOffsets(ctx)
}

func (m franzGoMember) Seek(partition int32, offset int64) error {
	to := map[int32]kgo.EpochOffset{partition: {Epoch: -1, Offset: offset}}
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{m.topic: to})
	return nil
}

func (m franzGoMember) Close() error {
	m.client.Close()
	return nil
}
