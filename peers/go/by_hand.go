package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	joins             = 0
	leaves            = -1
	committedByHand   = 0
	rebalanceByHandMs = 10_000
	beatByHand        = 300 * time.Millisecond
	heldByHand        = time.Second
)

// byHand is a member of the consumer protocol that sends its own requests. It reads nothing, gives partitions up late,
// and then commits them although it must not.
type byHand struct {
	client  *kgo.Client
	options Options
	tell    *Events

	member  string
	epoch   int32
	topic   [16]byte
	had     map[int32]int32 // the partitions that it has, with the last epoch in which it had each
	given   map[int32]bool  // the partitions of its last assignment
	toldAt  time.Time       // when it got that assignment
	givenUp map[int32]int32 // the partitions that it has given up and not tried to commit yet
}

// beMemberByHand sends heartbeats until it is told to close. It commits each partition that it has given up, in an epoch
// in which it had it, and prints the name of the error. "NONE" is a defect of the coordinator.
func beMemberByHand(o Options) error {
	client, err := franzGo{}.connect(o)
	if err != nil {
		return err
	}
	defer client.Close()
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	b := &byHand{
		client: client, options: o, tell: &Events{lines: json.NewEncoder(os.Stdout)},
		member: base64.RawURLEncoding.EncodeToString(id), had: map[int32]int32{}, givenUp: map[int32]int32{},
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for commands := bufio.NewScanner(os.Stdin); commands.Scan() && commands.Text() != "close"; {
		}
	}()
	for beat := time.NewTicker(beatByHand); ; {
		select {
		case <-beat.C:
			b.beat()
			b.commitOld()
		case <-closed:
			b.leave()
			return nil
		}
	}
}

func (b *byHand) beat() {
	answer, err := b.heartbeat()
	if err != nil {
		return // the next heartbeat finds the coordinator
	}
	switch kerr.ErrorForCode(answer.ErrorCode) {
	case nil:
		b.take(answer)
	case kerr.UnknownMemberID, kerr.FencedMemberEpoch:
		b.tell.Lost(slices.Collect(maps.Keys(b.had)))
		maps.Copy(b.givenUp, b.had)
		clear(b.had)
		clear(b.given)
		b.epoch = joins
	}
}

func (b *byHand) heartbeat() (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	asked := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	asked.Group, asked.MemberID, asked.MemberEpoch = b.options.Group, b.member, b.epoch
	asked.RebalanceTimeoutMillis = rebalanceByHandMs
	if b.epoch == joins {
		asked.SubscribedTopicNames = []string{b.options.Topic}
	}
	asked.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if len(b.had) > 0 {
		owned := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		owned.TopicID, owned.Partitions = b.topic, slices.Collect(maps.Keys(b.had))
		asked.Topics = append(asked.Topics, owned)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return asked.RequestWith(ctx, b.client)
}

// take stores the assignment of a response, and takes its partitions.
func (b *byHand) take(answer *kmsg.ConsumerGroupHeartbeatResponse) {
	before := b.epoch
	b.epoch = answer.MemberEpoch
	if answer.Assignment != nil {
		given := map[int32]bool{}
		for _, topic := range answer.Assignment.Topics {
			b.topic = topic.TopicID
			for _, partition := range topic.Partitions {
				given[partition] = true
			}
		}
		if !maps.Equal(given, b.given) {
			b.given, b.toldAt = given, time.Now()
		}
	}
	var assigned, revoked []int32
	for partition := range b.had {
		// It keeps partitions for a while, like a client with unfinished records. No other member may have them yet.
		if !b.given[partition] && time.Since(b.toldAt) >= heldByHand {
			revoked = append(revoked, partition)
			b.givenUp[partition] = before
			delete(b.had, partition)
		}
	}
	for partition := range b.given {
		if _, there := b.had[partition]; !there {
			assigned = append(assigned, partition)
			delete(b.givenUp, partition)
		}
		b.had[partition] = b.epoch
	}
	if len(revoked) > 0 {
		b.tell.Revoked(revoked)
	}
	if len(assigned) > 0 {
		b.tell.Assigned(assigned)
	}
}

// commitOld commits what it has given up, each partition in its former epoch, once the member has another epoch.
func (b *byHand) commitOld() {
	for partition, epoch := range b.givenUp {
		if epoch == b.epoch {
			continue
		}
		delete(b.givenUp, partition)
		b.commit(partition, epoch)
	}
}

func (b *byHand) commit(partition, epoch int32) {
	of := kmsg.NewOffsetCommitRequestTopicPartition()
	of.Partition, of.Offset = partition, committedByHand
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = b.options.Topic, b.topic
	topic.Partitions = append(topic.Partitions, of)
	asked := kmsg.NewPtrOffsetCommitRequest()
	asked.Group, asked.MemberID, asked.Generation = b.options.Group, b.member, epoch
	asked.Topics = append(asked.Topics, topic)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answer, err := asked.RequestWith(ctx, b.client)
	if err != nil || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return // the outcome is unknown
	}
	word := "NONE"
	if refused := kerr.TypedErrorForCode(answer.Topics[0].Partitions[0].ErrorCode); refused != nil {
		word = refused.Message
	}
	b.tell.tell("old_commit", map[string]any{"partition": partition, "epoch": epoch, "now": b.epoch, "error": word})
}

func (b *byHand) leave() {
	had := maps.Clone(b.had)
	b.tell.Revoked(slices.Collect(maps.Keys(had)))
	clear(b.had)
	before := b.epoch
	b.epoch = leaves
	if answer, err := b.heartbeat(); err != nil || answer.ErrorCode != 0 {
		return
	}
	for partition := range had {
		b.commit(partition, before)
	}
}
