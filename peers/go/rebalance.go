package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	writeEvery = 200 * time.Millisecond
	quietTime  = 3 * time.Second
)

// rebalanced is a group of many members of the consumer protocol in one process. One of them is slow: it waits before it
// gives partitions up.
type rebalanced struct {
	options Options
	members []*kgo.Client

	mutex   sync.Mutex
	owners  map[int32]int
	changed time.Time
	read    []time.Time // by member: when it got its last records
	pauses  []time.Duration
	slow    time.Duration
	held    map[int32]bool // the partitions that the slow member has when it begins to be slow
}

// measureRebalance prints in seconds how long a group takes until its members share all partitions: first when all join
// at once, and then when more join while one is slow. The second time leaves out the partitions of the slow member,
// because only the assignor decides whether it has to give any of them up. It also prints the longest time that another
// member then got no records.
func measureRebalance(o Options) error {
	group := &rebalanced{options: o, owners: map[int32]int{}, held: map[int32]bool{}}
	defer group.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go group.write(ctx)
	began := time.Now()
	if err := group.add(o.Count); err != nil {
		return err
	}
	first, err := group.stable(began)
	if err != nil {
		return err
	}
	group.mutex.Lock()
	group.slow = time.Duration(o.SlowMs) * time.Millisecond
	for partition, owner := range group.owners {
		group.held[partition] = owner == 0
	}
	for number := range group.pauses {
		group.pauses[number], group.read[number] = 0, time.Now()
	}
	group.mutex.Unlock()
	began = time.Now()
	if err := group.add(o.Count / 10); err != nil {
		return err
	}
	again, err := group.stable(began)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"stable_s": first.Seconds(), "again_s": again.Seconds(), "pause_s": group.longestPause().Seconds(),
	})
}

func (g *rebalanced) add(count int) error {
	for range count {
		number := len(g.members)
		g.mutex.Lock()
		g.read, g.pauses = append(g.read, time.Time{}), append(g.pauses, 0)
		g.mutex.Unlock()
		client, err := franzGo{}.connect(g.options,
			kgo.ConsumerGroup(g.options.Group),
			kgo.ConsumeTopics(g.options.Topic),
			kgo.Balancers(kgo.StickyBalancer()),
			kgo.ServerSideBalancer(),
			kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
			kgo.FetchMaxWait(writeEvery),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				g.assigned(number, numbers(partitions))
			}),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				g.revoked(number, numbers(partitions))
			}),
			kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				g.revoked(number, numbers(partitions))
			}),
		)
		if err != nil {
			return err
		}
		g.members = append(g.members, client)
		go g.poll(number, client)
	}
	return nil
}

func (g *rebalanced) assigned(number int, partitions []int32) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, partition := range partitions {
		g.owners[partition] = number
		g.hasChanged(partition)
	}
}

func (g *rebalanced) revoked(number int, partitions []int32) {
	g.mutex.Lock()
	slow := g.slow
	g.mutex.Unlock()
	if number == 0 && len(partitions) > 0 {
		time.Sleep(slow)
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, partition := range partitions {
		if g.owners[partition] == number {
			delete(g.owners, partition)
			g.hasChanged(partition)
		}
	}
}

func (g *rebalanced) hasChanged(partition int32) {
	if !g.held[partition] {
		g.changed = time.Now()
	}
}

func (g *rebalanced) poll(number int, client *kgo.Client) {
	for {
		fetched := client.PollFetches(context.Background())
		if fetched.IsClientClosed() {
			return
		}
		if fetched.NumRecords() == 0 {
			continue
		}
		g.mutex.Lock()
		now := time.Now()
		if last := g.read[number]; !last.IsZero() {
			g.pauses[number] = max(g.pauses[number], now.Sub(last))
		}
		g.read[number] = now
		g.mutex.Unlock()
	}
}

// stable returns the time until all partitions had an owner, and waits until nothing has changed for a while.
func (g *rebalanced) stable(began time.Time) (time.Duration, error) {
	for giveUp := time.Now().Add(5 * limit); time.Now().Before(giveUp); time.Sleep(20 * time.Millisecond) {
		g.mutex.Lock()
		owners := map[int]bool{}
		for _, owner := range g.owners {
			owners[owner] = true
		}
		whole := len(g.owners) == int(g.options.Partitions) && len(owners) == len(g.members)
		changed, quiet := g.changed, quietTime+g.slow
		g.mutex.Unlock()
		if whole && time.Since(changed) > quiet {
			return changed.Sub(began), nil
		}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return 0, fmt.Errorf("%d of %d partitions have an owner after %s", len(g.owners), g.options.Partitions, 5*limit)
}

// longestPause returns the longest pause of the first members, without that of the slow one.
func (g *rebalanced) longestPause() time.Duration {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	longest := time.Duration(0)
	for _, pause := range g.pauses[1:g.options.Count] {
		longest = max(longest, pause)
	}
	return longest
}

// write writes a record to each partition, again and again.
func (g *rebalanced) write(ctx context.Context) {
	client, err := franzGo{}.connect(g.options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return
	}
	defer client.Close()
	for ticker := time.NewTicker(writeEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for partition := range g.options.Partitions {
				value := binary.BigEndian.AppendUint32(nil, uint32(partition))
				client.Produce(ctx, &kgo.Record{Topic: g.options.Topic, Partition: partition, Value: value}, nil)
			}
			_ = client.Flush(ctx)
		}
	}
}

func (g *rebalanced) close() {
	var closing sync.WaitGroup
	for _, member := range g.members {
		closing.Go(member.Close)
	}
	closing.Wait()
}
