package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/IBM/sarama"
)

// saramaMember is of one group for as long as it lives, and has a session for each generation.
type saramaMember struct {
	topic string
	tell  *Events
	group sarama.ConsumerGroup
	ended chan struct{}

	mutex   sync.Mutex
	session sarama.ConsumerGroupSession // nil between two generations
}

func (s saramaClient) Join(o Options, tell *Events) (Member, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	if o.Assignor != "range" || o.Protocol != "classic" {
		return nil, fmt.Errorf("sarama knows no assignor %q in the %s protocol", o.Assignor, o.Protocol)
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	config.Consumer.Group.Session.Timeout = o.sessionTimeout()
	config.Consumer.Group.Heartbeat.Interval = heartbeatInterval
	config.Consumer.Group.InstanceId = o.Instance
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if o.Reset == "latest" {
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	config.Consumer.Return.Errors = true
	group, err := sarama.NewConsumerGroup(o.seeds(), o.Group, config)
	if err != nil {
		return nil, err
	}
	member := &saramaMember{topic: o.Topic, tell: tell, group: group, ended: make(chan struct{})}
	go member.consume()
	go func() {
		for err := range group.Errors() {
			tell.Fail(err)
		}
	}()
	return member, nil
}

// consume is in one generation after the other.
func (m *saramaMember) consume() {
	defer close(m.ended)
	for {
		if err := m.group.Consume(context.Background(), []string{m.topic}, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		} else if err != nil {
			m.tell.Fail(err)
		}
	}
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	m.tell.Assigned(session.Claims()[m.topic])
	return nil
}

func (m *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = nil
	m.tell.Revoked(session.Claims()[m.topic])
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			session.MarkMessage(message, "") // first: who has been told of it may say `commit` at once
			m.tell.Record(message.Partition, message.Offset, message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

// Commit what is marked. What goes wrong comes by Errors.
func (m *saramaMember) Commit() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.session == nil {
		return fmt.Errorf("a commit between two generations")
	}
	m.session.Commit()
	return nil
}

func (m *saramaMember) Seek(int32, int64) error {
	return fmt.Errorf("sarama can't seek in a group")
}

func (m *saramaMember) Close() error {
	err := m.group.Close()
	<-m.ended
	return err
}
