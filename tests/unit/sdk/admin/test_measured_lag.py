"""The lag of a group as the client measures it, where the coordinator can't tell it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.admin.group_info import GroupInfo, GroupMember
from ottla.admin.measured_lag import measured_lag
from ottla.client.cluster import ClusterClient
from ottla.errors import ErrorCode
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer
from ottla_core.model import TopicPartition

MEMBER = GroupMember("m1", None, "reader", "/10.0.0.1", ("t",), (TopicPartition("t", 0), TopicPartition("t", 2)), 0, 0)
GROUP = GroupInfo("g", "Stable", "consumer", "range", -1, "", (MEMBER,), -1, -1)


@pytest.fixture
def brokers() -> ScriptedCluster:
    """Three records in each partition, of which partition 1 has lost the first two."""
    scripted = ScriptedCluster({"t": 4}, brokers=2)
    with Producer[bytes, bytes]("b0:1", topic="t", linger=0, _transport=scripted.connect) as producer:
        for partition in range(4):
            for _ in range(3):
                producer.send(b"x", partition=partition).result(10)
    scripted.truncate("t", 1, before=2)
    return scripted


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[ClusterClient]:
    cluster = ClusterClient(["b0:1"], brokers.connect)
    yield cluster
    cluster.close()


def test_it_is_counted_from_the_committed_offset_or_where_the_log_begins(cluster: ClusterClient) -> None:
    committed = {TopicPartition("t", 0): 3, TopicPartition("t", 1): 0, TopicPartition("t", 3): 1}
    lag = measured_lag(cluster, GROUP, committed, timeout=10)
    assert [(p.partition, p.committed, p.start, p.end, p.records, p.seconds) for p in lag.partitions] == [
        (0, 3, 0, 3, 0, 0.0),
        (1, 0, 2, 3, 1, None),
        (2, None, 0, 3, None, None),
        (3, 1, 0, 3, 2, None),
    ]
    assert [p.member_id for p in lag.partitions] == ["m1", "", "m1", ""]
    assert (lag.records, lag.seconds) == (3, None)


def test_a_group_that_has_read_everything_is_not_late(cluster: ClusterClient) -> None:
    lag = measured_lag(cluster, GROUP, {TopicPartition("t", n): 3 for n in range(4)}, timeout=10)
    assert (lag.records, lag.seconds) == (0, 0.0)


def test_a_partition_without_a_leader_keeps_no_other_from_being_measured(cluster: ClusterClient) -> None:
    committed = {TopicPartition("gone", 0): 3, TopicPartition("t", 0): 1, TopicPartition("t", 9): 1}
    lag = measured_lag(cluster, GROUP, committed, timeout=10)
    errors = {(p.topic, p.partition): p.error and p.error.code for p in lag.partitions}
    assert errors == {
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): None,
        ("t", 2): None,
        ("t", 9): ErrorCode.INVALID_PARTITIONS,
    }
    assert lag.records == 2
