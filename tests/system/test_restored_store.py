"""If the metadata store is older than the logs, the logs decide who leads, and nothing is lost (rule C18)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from three_brokers import three_brokers
from waiting import LIMIT_S, wait_until

import ottla
from ottla.admin.topics import PartitionInfo
from ottla.testing import Cluster
from ottla_broker.membership.own_registration import OwnRegistration
from ottla_core.cluster.store import Delete, KeyValue, Put

PREFIX = "/ottla/ottla/"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with three_brokers() as running:
        yield running


def partition(cluster: Cluster) -> PartitionInfo:
    running = next(broker for broker in cluster.brokers if broker.running)
    with ottla.Admin(running.kafka_address) as admin:
        return admin.topics.describe("t")[0].partitions[0]


def backup(cluster: Cluster, *kinds: str) -> list[KeyValue]:
    """What the store has of these kinds, but for registrations."""
    entries = cluster.run(cluster._store.snapshot(PREFIX, timeout=LIMIT_S)).entries
    return [e for e in entries if e.key.removeprefix(PREFIX).split("/")[0] in kinds]


def restore(cluster: Cluster, entries: list[KeyValue], *kinds: str) -> None:
    gone = [Delete(e.key) for e in backup(cluster, *kinds) if e.key not in {entry.key for entry in entries}]
    cluster.run(cluster._store.txn([], [*gone, *(Put(e.key, e.value) for e in entries)], timeout=LIMIT_S))


def move_leader(cluster: Cluster) -> None:
    leader = cluster.brokers[partition(cluster).leader]
    leader.stop()
    wait_until(lambda: partition(cluster).leader not in (-1, leader.id))
    leader.restart()
    wait_until(lambda: len(partition(cluster).isr) == 3)


@pytest.mark.rule(21)
def test_epochs_below_those_of_the_logs_are_noticed_and_the_longest_log_leads_above_them(cluster: Cluster) -> None:
    cluster.produce("t", [f"old-{n}" for n in range(100)], acks="all")
    kept = backup(cluster, "partitions")
    for _ in range(2):
        move_leader(cluster)
    cluster.produce("t", [f"new-{n}" for n in range(100)], acks="all")
    epoch = partition(cluster).leader_epoch
    for broker in cluster.brokers:
        broker.stop()
    restore(cluster, kept, "partitions")
    for broker in cluster.brokers:
        broker.restart()
    wait_until(lambda: partition(cluster).leader_epoch > epoch + 100 and len(partition(cluster).isr) == 3)
    cluster.produce("t", ["after"], acks="all")
    values = [r.value for r in cluster.read("t")]
    assert values == [f"old-{n}" for n in range(100)] + [f"new-{n}" for n in range(100)] + ["after"]


async def said_nothing(own: OwnRegistration, **fields: Any) -> bool:
    """What a broker would say after its registration comes too late."""
    return False


@pytest.mark.story("found-at-a-start-and-told-too-late")
@pytest.mark.rule(21)
def test_a_replica_that_left_the_isr_after_the_backup_and_starts_first_takes_nothing_from_the_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not registered since: only its log tells, and that before it may lead."""
    cluster.produce("t", [f"old-{n}" for n in range(100)], acks="all")
    kept, epoch = backup(cluster, "partitions"), partition(cluster).leader_epoch
    left = cluster.brokers[(partition(cluster).leader + 1) % 3]
    others = [b for b in cluster.brokers if b is not left]
    move_leader(cluster)
    cluster.produce("t", ["new-0"], acks="all")
    left.stop()
    wait_until(lambda: left.id not in partition(cluster).isr)
    cluster.produce("t", [f"new-{n}" for n in range(1, 100)], acks="all")
    for broker in others:
        broker.stop()
    restore(cluster, kept, "partitions")
    monkeypatch.setattr(OwnRegistration, "tell", said_nothing)
    left.restart()
    wait_until(lambda: partition(cluster).leader == -1 and not partition(cluster).isr)
    assert partition(cluster).leader_epoch <= epoch + 1, "nobody was elected by the backup, not for a moment either"
    for broker in others:
        broker.restart()
    wait_until(lambda: len(partition(cluster).isr) == 3)
    values = [r.value for r in cluster.read("t")]
    assert values == [f"old-{n}" for n in range(100)] + [f"new-{n}" for n in range(100)]
