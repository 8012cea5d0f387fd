package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

func (f franzGo) Transact(ctx context.Context, o Options, steps <-chan Step) error {
	client, err := f.connect(o, kgo.TransactionalID(o.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, _, err := client.ProducerID(ctx); err != nil { // else it would take the id over with its first record
		return err
	}
	var failed kgo.FirstErrPromise
	for step := range steps {
		switch step.Do {
		case "":
			client.Produce(ctx, &kgo.Record{Topic: o.Topic, Key: step.Key, Value: step.Value}, failed.Promise())
		case "begin":
			err = client.BeginTransaction()
		default:
			if err = client.Flush(ctx); err == nil {
				err = client.EndTransaction(ctx, kgo.TransactionEndTry(step.Do == "commit"))
			}
		}
		if err != nil {
			return err
		}
	}
	return failed.Err()
}

func (f franzGo) Transform(ctx context.Context, o Options) error {
	settings, err := f.settings(
		o,
		kgo.TransactionalID(o.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(o.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(settings...)
	if err != nil {
		return err
	}
	defer session.Close()
	var got []*kgo.Record
	for len(got) < o.Count {
		fetched := session.PollRecords(ctx, o.Count-len(got))
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("%d of %d records: %w", len(got), o.Count, err)
		}
		got = append(got, fetched.Records()...)
	}
	if err := session.Begin(); err != nil {
		return err
	}
	var failed kgo.FirstErrPromise
	for _, r := range got {
		session.Produce(ctx, &kgo.Record{Topic: o.Topic, Key: r.Key, Value: r.Value}, failed.Promise())
	}
	wanted := o.End == "commit"
	committed, err := session.End(ctx, kgo.TransactionEndTry(wanted))
	if err != nil {
		return err
	}
	return check("whether it has committed", committed, wanted)
}
