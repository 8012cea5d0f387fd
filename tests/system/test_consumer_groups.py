"""Unchanged clients of the consumer protocol (KIP-848), and what admin.groups and the plan of faults know of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import confluent_kafka
import pytest
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_core.model import TopicPartition

TOPIC, GROUP = "orders", "billing"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(TOPIC, partitions=4)
        yield cluster


@contextmanager
def member(cluster: Cluster, **settings: str) -> Iterator[confluent_kafka.Consumer]:
    given = {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "group.protocol": "consumer"}
    consumer = confluent_kafka.Consumer(given | {name.replace("_", "."): value for name, value in settings.items()})
    consumer.subscribe([TOPIC])
    try:
        yield consumer
    finally:
        consumer.close()


def settle(*members: confluent_kafka.Consumer) -> None:
    """Poll until each member has its share."""

    def is_settled() -> bool:
        for each in members:
            each.poll(0.05)
        return all(len(each.assignment()) == 4 // len(members) for each in members)

    wait_until(is_settled)


def test_a_consumer_group_is_listed_and_described(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin, ExitStack() as stack:
        members = [stack.enter_context(member(cluster, client_id=name)) for name in ("a", "b")]
        settle(*members)
        (listed,) = admin.groups.list()
        assert (listed.name, listed.type, listed.members) == (GROUP, "consumer", 2)
        wait_until(lambda: admin.groups.describe(GROUP).state == "Stable")
        group = admin.groups.describe(GROUP)
        assert (group.type, group.assignor, group.held_up) == ("consumer", "uniform", ())
        assert group.assignment_epoch == group.generation
        assert {each.epoch for each in group.members} == {group.generation}
        assert {each.client_id for each in group.members} == {"a", "b"}
        read = sorted(partition for each in group.members for partition in each.partitions)
        assert read == [TopicPartition(TOPIC, number) for number in range(4)]
        assert all(each.target == each.partitions and each.topics == (TOPIC,) for each in group.members)
        assert {event.kind for event in admin.groups.explain(GROUP)} >= {"joined", "target"}


def test_members_of_a_cluster_in_a_test_beat_twice_a_second(cluster: Cluster) -> None:
    with member(cluster) as consumer:
        settle(consumer)
        beats = cluster.faults.delay("ConsumerGroupHeartbeat", 0.0).times(1_000)
        wait_until(lambda: beats.met >= 3, limit_s=20.0)


def test_a_planned_fault_meets_the_heartbeats_of_consumer_groups(cluster: Cluster) -> None:
    refused = cluster.faults.error("ConsumerGroupHeartbeat", ottla.ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).times(2)
    with member(cluster) as consumer:
        settle(consumer)
    assert refused.met == 2
