package main

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
)

// transactional is a producer that has taken over the id.
func (s saramaClient) transactional(o Options) (sarama.SyncProducer, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	config.Producer.Transaction.ID = o.TransactionalID
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	return sarama.NewSyncProducer(o.seeds(), config)
}

func (s saramaClient) Transact(_ context.Context, o Options, steps <-chan Step) error {
	producer, err := s.transactional(o)
	if err != nil {
		return err
	}
	defer producer.Close()
	for step := range steps {
		if err := saramaStep(producer, o.Topic, step); err != nil {
			return err
		}
	}
	return nil
}

func saramaStep(producer sarama.SyncProducer, topic string, step Step) error {
	switch step.Do {
	case "begin":
		return producer.BeginTxn()
	case "commit":
		return producer.CommitTxn()
	case "abort":
		return producer.AbortTxn()
	}
	key, value := sarama.ByteEncoder(step.Key), sarama.ByteEncoder(step.Value)
	_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: key, Value: value})
	return err
}

func (s saramaClient) Transform(ctx context.Context, o Options) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	group, err := sarama.NewConsumerGroup(o.seeds(), o.Group, config)
	if err != nil {
		return err
	}
	defer group.Close()
	producer, err := s.transactional(o)
	if err != nil {
		return err
	}
	defer producer.Close()
	round := &saramaRound{o: o, producer: producer, err: fmt.Errorf("no record")}
	if err := group.Consume(ctx, []string{o.Source}, round); err != nil {
		return err
	}
	return round.err
}

// saramaRound is the work of one session of the group, which ends with it.
type saramaRound struct {
	o        Options
	producer sarama.SyncProducer
	err      error
}

func (*saramaRound) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*saramaRound) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *saramaRound) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	r.err = r.run(session, claim)
	return r.err
}

func (r *saramaRound) run(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	if err := r.producer.BeginTxn(); err != nil {
		return err
	}
	member := sarama.NewConsumerGroupMetadataFromSession(session, r.o.Group, nil)
	for n := range r.o.Count {
		message, ok := <-claim.Messages()
		if !ok {
			return fmt.Errorf("the session has ended after %d of %d records", n, r.o.Count)
		}
		if err := saramaStep(r.producer, r.o.Topic, Step{Record: Record{Key: message.Key, Value: message.Value}}); err != nil {
			return err
		}
		if err := r.producer.AddMessageToTxnWithGroupMetadata(message, member, nil); err != nil {
			return err
		}
	}
	return saramaStep(r.producer, r.o.Topic, Step{Do: r.o.End})
}
