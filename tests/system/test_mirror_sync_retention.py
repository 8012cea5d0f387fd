"""The offset syncs of a flow follow what the two clusters have, and not what was ever written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mirrors import copied, mirrored
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_mirror.machines import mirror_records
from ottla_mirror.machines import sync_retention as machine
from ottla_mirror.syncing import sync_retention

SYNCS = "mm2-offset-syncs.east.internal"
TRANSACTIONS, AT_ONCE = 30, 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync for every few offsets, which is looked at all the time."""
    monkeypatch.setattr(sync_retention, "_LOOK_S", 0.3)
    for module in (mirror_records, machine):
        monkeypatch.setattr(module, "PART", 4)


def keys_of(west: Cluster, topic: str) -> int:
    """How many syncs of the topic compaction would leave."""
    found = {
        record.key: record.value for record in ottla.read(SYNCS, bootstrap=west.bootstrap, key="bytes", value="bytes")
    }
    return sum(value is not None for key, value in found.items() if topic.encode() in (key or b""))


def write(east: Cluster, topic: str, first: int) -> None:
    """Each transaction ends with a marker, and so does a stretch."""
    with ottla.Producer(east.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        for number in range(first, first + TRANSACTIONS):
            with producer.transaction() as transaction:
                for n in range(AT_ONCE):
                    transaction.send(f"{number} {n}", partition=0)


@pytest.mark.story("offset-syncs-that-only-grew")
def test_syncs_of_records_that_neither_cluster_has_are_deleted(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, small_parts: None
) -> None:
    write(cluster, topic, 0)
    partition, copy = ottla.TopicPartition(topic, 0), f"east.{topic}"
    records = TRANSACTIONS * AT_ONCE
    with mirrored(cluster, west, topic, "at_least_once") as (flow,), ottla.Admin(west.bootstrap) as target:
        wait_until(lambda: flow.syncs.end(partition) >= records + TRANSACTIONS - 1)
        assert keys_of(west, topic) >= TRANSACTIONS
        admin.topics.delete_records(topic, {0: records + TRANSACTIONS})
        write(cluster, topic, TRANSACTIONS)
        wait_until(lambda: len(copied(west, topic)) == 2 * records)
        assert flow.syncs.translate(partition, AT_ONCE) == AT_ONCE, "the target has the records still"
        target.topics.delete_records(copy, {0: records})
        wait_until(lambda: flow.syncs.translate(partition, AT_ONCE) is None)
        wait_until(lambda: keys_of(west, topic) <= TRANSACTIONS + 2)
        at = records + TRANSACTIONS
        wait_until(lambda: flow.syncs.translate(partition, at + AT_ONCE) == records + AT_ONCE)
    with ottla.Admin(west.bootstrap) as target:
        target.groups.delete("ottla-mirror.east.west")
    with mirrored(cluster, west, topic, "at_least_once") as (flow,):
        write(cluster, topic, 2 * TRANSACTIONS)
        wait_until(lambda: len(copied(west, topic)) >= 2 * records)
        assert len(copied(west, topic)) == 2 * records, (
            "it goes on behind what was copied, though its group has expired"
        )


@pytest.mark.story("offset-syncs-that-only-grew")
def test_of_a_topic_that_both_clusters_have_deleted_no_sync_is_left(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, small_parts: None
) -> None:
    write(cluster, topic, 0)
    with mirrored(cluster, west, topic, "exactly_once") as (flow,), ottla.Admin(west.bootstrap) as target:
        wait_until(lambda: flow.syncs.end(ottla.TopicPartition(topic, 0)) >= (TRANSACTIONS - 1) * (AT_ONCE + 1))
        admin.topics.delete(topic)
        wait_until(lambda: not admin.topics.exists(topic))
        target.topics.delete(f"east.{topic}")
        wait_until(lambda: all(source.topic != topic for source in flow.syncs.sources()))
        wait_until(lambda: keys_of(west, topic) == 0)
