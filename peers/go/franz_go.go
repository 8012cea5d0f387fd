package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type franzGo struct{}

var franzGoCodecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var franzGoAcks = map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}

func (f franzGo) connect(o Options, more ...kgo.Opt) (*kgo.Client, error) {
	settings, err := f.settings(o, more...)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(settings...)
}

// settings adds what every client has: the brokers, and the security of their connections.
func (franzGo) settings(o Options, more ...kgo.Opt) ([]kgo.Opt, error) {
	security, err := readSecurity()
	if err != nil {
		return nil, err
	}
	more = append(more, kgo.SeedBrokers(o.seeds()...))
	if security.hasTLS() {
		config, err := security.tls()
		if err != nil {
			return nil, err
		}
		more = append(more, kgo.DialTLSConfig(config))
	}
	switch security.Mechanism {
	case "PLAIN":
		more = append(more, kgo.SASL(plain.Auth{User: security.User, Pass: security.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		more = append(more, kgo.SASL(scram.Auth{User: security.User, Pass: security.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		more = append(more, kgo.SASL(scram.Auth{User: security.User, Pass: security.Password}.AsSha512Mechanism()))
	}
	return more, nil
}

func (f franzGo) Produce(ctx context.Context, o Options, records <-chan Record) ([]int64, error) {
	settings := []kgo.Opt{
		kgo.RequiredAcks(franzGoAcks[o.Acks]),
		kgo.ProducerBatchCompression(franzGoCodecs[o.Codec]),
		kgo.ProducerBatchMaxBytes(maxMessageBytes),
	}
	if o.Partition != -1 {
		settings = append(settings, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if !o.Idempotent {
		settings = append(settings, kgo.DisableIdempotentWrite())
	}
	// No RecordDeliveryTimeout: it counts from the record's timestamp, which may be years ago. The context ends it.
	client, err := f.connect(o, settings...)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	var sent []*kgo.Record
	var failed kgo.FirstErrPromise
	for r := range records {
		record := &kgo.Record{
			Topic: o.Topic, Partition: o.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.TimestampMs),
		}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		sent = append(sent, record)
		client.Produce(ctx, record, failed.Promise())
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	if err := failed.Err(); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(sent))
	for _, record := range sent {
		offsets = append(offsets, record.Offset)
	}
	return offsets, nil
}

func (f franzGo) Consume(ctx context.Context, o Options) ([]Record, error) {
	from := map[int32]kgo.Offset{}
	for partition := range o.Partitions {
		from[partition] = kgo.NewOffset().At(o.Offset)
	}
	assigned := map[string]map[int32]kgo.Offset{o.Topic: from}
	settings := []kgo.Opt{kgo.ConsumePartitions(assigned), kgo.FetchMaxPartitionBytes(maxMessageBytes)}
	if o.Isolation == "read_committed" {
		settings = append(settings, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := f.connect(o, settings...)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	var got []Record
	for len(got) < o.Count {
		fetched := client.PollRecords(ctx, o.Count-len(got))
		if err := fetched.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(got), o.Count, err)
		}
		for _, r := range fetched.Records() {
			record := Record{Key: r.Key, Value: r.Value, Headers: []Header{}, TimestampMs: r.Timestamp.UnixMilli()}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, Header{h.Key, h.Value})
			}
			got = append(got, record)
		}
	}
	return got, nil
}

func (f franzGo) OffsetForTime(ctx context.Context, o Options) (*int64, error) {
	client, err := f.connect(o)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListOffsetsAfterMilli(ctx, o.TimestampMs, o.Topic)
	if err != nil {
		return nil, err
	}
	found, ok := listed.Lookup(o.Topic, 0)
	if !ok {
		return nil, fmt.Errorf("no offset listed")
	}
	if found.Err != nil || found.Timestamp == -1 { // then the offset is of the end
		return nil, found.Err
	}
	return &found.Offset, nil
}

func (f franzGo) Admin(ctx context.Context, o Options) ([]string, error) {
	// Every look at the topics asks a broker: by default it tells for 5 s what it has once heard.
	client, err := f.connect(o, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var trip roundTrip
	trip.step("create", func() error {
		_, err := admin.CreateTopic(ctx, 3, 1, nil, o.Topic)
		return err
	})
	trip.step("describe", func() error { return hasPartitions(ctx, admin, o.Topic, 3) })
	trip.step("partitions", func() error {
		answer, err := admin.UpdatePartitions(ctx, 5, o.Topic)
		if err != nil {
			return err
		}
		if err := answer.Error(); err != nil {
			return err
		}
		return hasPartitions(ctx, admin, o.Topic, 5)
	})
	trip.step("config", func() error {
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("60000")}
		answer, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, o.Topic)
		if err != nil {
			return err
		}
		if answer[0].Err != nil {
			return answer[0].Err
		}
		return hasRetention(ctx, admin, o.Topic, "60000")
	})
	trip.step("list", func() error {
		listed, err := admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		return check("the topic's place in the list", listed.Has(o.Topic), true)
	})
	trip.step("delete records", func() error {
		records := []*kgo.Record{{Topic: o.Topic, Value: []byte("a")}, {Topic: o.Topic, Value: []byte("b")}}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		var before kadm.Offsets
		before.Add(kadm.Offset{Topic: o.Topic, Partition: 0, At: 1})
		answer, err := admin.DeleteRecords(ctx, before)
		if err != nil {
			return err
		}
		deleted, _ := answer.Lookup(o.Topic, 0)
		if deleted.Err != nil {
			return deleted.Err
		}
		return check("the low watermark", deleted.LowWatermark, int64(1))
	})
	trip.step("delete", func() error {
		if _, err := admin.DeleteTopic(ctx, o.Topic); err != nil {
			return err
		}
		left, err := admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		return check("the topic's place in the list", left.Has(o.Topic), false)
	})
	return trip.did, trip.err
}

func hasRetention(ctx context.Context, admin *kadm.Client, topic, wanted string) error {
	answer, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	described, err := answer.On(topic, nil)
	if err != nil {
		return err
	}
	for _, config := range described.Configs {
		if config.Key == "retention.ms" {
			return check("retention.ms", config.MaybeValue(), wanted)
		}
	}
	return fmt.Errorf("no retention.ms in %v", described)
}

func hasPartitions(ctx context.Context, admin *kadm.Client, topic string, wanted int) error {
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	if err := topics.Error(); err != nil {
		return err
	}
	return check("the number of partitions", len(topics[topic].Partitions), wanted)
}
