package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// saramaClient takes brokers for this version of Kafka and goes by its requests; "" is sarama's default.
type saramaClient struct{ kafka string }

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func (s saramaClient) config() (*sarama.Config, error) {
	config := sarama.NewConfig()
	if s.kafka != "" {
		version, err := sarama.ParseKafkaVersion(s.kafka)
		if err != nil {
			return nil, err
		}
		config.Version = version
	}
	security, err := readSecurity()
	if err != nil {
		return nil, err
	}
	return config, secureSarama(config, security)
}

func secureSarama(config *sarama.Config, security Security) (err error) {
	if config.Net.TLS.Enable = security.hasTLS(); config.Net.TLS.Enable {
		if config.Net.TLS.Config, err = security.tls(); err != nil {
			return err
		}
	}
	if security.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(security.Mechanism)
		config.Net.SASL.User = security.User
		config.Net.SASL.Password = security.Password
		hash := scram.SHA256
		if security.Mechanism == sarama.SASLTypeSCRAMSHA512 {
			hash = scram.SHA512
		}
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaScram{hash: hash} }
	}
	return nil
}

// saramaScram adapts the module that sarama's own examples use for SCRAM.
type saramaScram struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (s *saramaScram) Begin(user, password, authzID string) error {
	client, err := s.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	s.conversation = client.NewConversation()
	return nil
}

func (s *saramaScram) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

func (s *saramaScram) Done() bool { return s.conversation.Done() }

func (s saramaClient) Produce(ctx context.Context, o Options, records <-chan Record) ([]int64, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	config.Producer.RequiredAcks = sarama.RequiredAcks(o.Acks)
	config.Producer.Compression = saramaCodecs[o.Codec]
	config.Producer.MaxMessageBytes = maxMessageBytes
	if o.Partition != -1 {
		config.Producer.Partitioner = sarama.NewManualPartitioner
	}
	config.Producer.Return.Successes = true
	config.Producer.Timeout = limit
	// By default it tries three times in 300 ms, and gives up before a partition has a new leader.
	config.Producer.Retry.Max = 100
	if o.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewAsyncProducer(o.seeds(), config)
	if err != nil {
		return nil, err
	}
	all := make(chan int, 1)
	go func() {
		n := 0
		for r := range records {
			producer.Input() <- saramaMessage(o, r, n)
			n++
		}
		all <- n
	}()

	// Not closed before the last offset is here: a producer that is closing tries nothing again.
	defer producer.AsyncClose()
	offsets := map[int]int64{}
	for count := -1; len(offsets) != count; {
		select {
		case count = <-all:
		case done := <-producer.Successes():
			offsets[done.Metadata.(int)] = done.Offset
		case failed := <-producer.Errors():
			return nil, failed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	inOrder := make([]int64, len(offsets))
	for n, offset := range offsets {
		inOrder[n] = offset
	}
	return inOrder, nil
}

func saramaMessage(o Options, r Record, n int) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: o.Topic, Partition: o.Partition, Timestamp: time.UnixMilli(r.TimestampMs), Metadata: n,
	}
	if r.Key != nil {
		message.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		message.Value = sarama.ByteEncoder(r.Value)
	}
	for _, h := range r.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
	}
	return message
}

func (s saramaClient) Consume(ctx context.Context, o Options) ([]Record, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	config.Consumer.Fetch.Default = maxMessageBytes
	if o.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(o.seeds(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	messages := make(chan *sarama.ConsumerMessage)
	for number := range o.Partitions {
		partition, err := consumer.ConsumePartition(o.Topic, number, o.Offset)
		if err != nil {
			return nil, err
		}
		go func() {
			for message := range partition.Messages() {
				messages <- message
			}
		}()
	}

	var got []Record
	for len(got) < o.Count {
		select {
		case message := <-messages:
			record := Record{
				Key: message.Key, Value: message.Value, Headers: []Header{}, TimestampMs: message.Timestamp.UnixMilli(),
			}
			for _, h := range message.Headers {
				record.Headers = append(record.Headers, Header{string(h.Key), h.Value})
			}
			got = append(got, record)
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d records: %w", len(got), o.Count, context.Cause(ctx))
		}
	}
	return got, nil
}

func (s saramaClient) OffsetForTime(_ context.Context, o Options) (*int64, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(o.seeds(), config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offset, err := client.GetOffset(o.Topic, 0, o.TimestampMs)
	if err != nil || offset == -1 {
		return nil, err
	}
	return &offset, nil
}

func (s saramaClient) Admin(ctx context.Context, o Options) ([]string, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdmin(o.seeds(), config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	var trip roundTrip
	trip.step("create", func() error {
		return admin.CreateTopic(o.Topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false)
	})
	trip.step("describe", func() error { return saramaHasPartitions(admin, o.Topic, 3) })
	trip.step("partitions", func() error {
		if err := admin.CreatePartitions(o.Topic, 5, nil, false); err != nil {
			return err
		}
		return saramaHasPartitions(admin, o.Topic, 5)
	})
	trip.step("config", func() error {
		value := "60000"
		change := map[string]*string{"retention.ms": &value}
		if err := admin.AlterConfig(sarama.TopicResource, o.Topic, change, false); err != nil {
			return err
		}
		wanted := sarama.ConfigResource{Type: sarama.TopicResource, Name: o.Topic, ConfigNames: []string{"retention.ms"}}
		entries, err := admin.DescribeConfig(wanted)
		if err != nil {
			return err
		}
		if err := check("the number of configs", len(entries), 1); err != nil {
			return err
		}
		return check("retention.ms", entries[0].Value, value)
	})
	trip.step("list", func() error {
		topics, err := admin.ListTopics()
		if err != nil {
			return err
		}
		return check("the topic's partitions in the list", topics[o.Topic].NumPartitions, int32(5))
	})
	trip.step("delete records", func() error {
		two := make(chan Record, 2)
		two <- Record{Value: []byte("a"), TimestampMs: time.Now().UnixMilli()}
		two <- Record{Value: []byte("b"), TimestampMs: time.Now().UnixMilli()}
		close(two)
		if _, err := s.Produce(ctx, o, two); err != nil {
			return err
		}
		if err := admin.DeleteRecords(o.Topic, map[int32]int64{0: 1}); err != nil {
			return err
		}
		first, err := s.OffsetForTime(ctx, Options{Bootstrap: o.Bootstrap, Topic: o.Topic, TimestampMs: sarama.OffsetOldest})
		if err != nil {
			return err
		}
		return check("the first offset", *first, int64(1))
	})
	trip.step("delete", func() error {
		if err := admin.DeleteTopic(o.Topic); err != nil {
			return err
		}
		topics, err := admin.ListTopics()
		if err != nil {
			return err
		}
		_, left := topics[o.Topic]
		return check("the topic's place in the list", left, false)
	})
	return trip.did, trip.err
}

func saramaHasPartitions(admin sarama.ClusterAdmin, topic string, wanted int) error {
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return err
	}
	if described[0].Err != sarama.ErrNoError {
		return described[0].Err
	}
	return check("the number of partitions", len(described[0].Partitions), wanted)
}
