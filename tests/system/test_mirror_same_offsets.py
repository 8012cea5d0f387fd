"""Copies that keep the source's offsets: a group goes on where it is, and nothing else can be in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from mirrors import everything, mirrored
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_mirror.flow import Flow

KEPT = "same_offsets"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


def write(east: Cluster, topic: str, first: int, count: int) -> None:
    """Transactions, every third aborted: what lies between their records are gaps in a copy."""
    with ottla.Producer(east.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        producer.init_transactions()
        for number in range(first, first + count):
            producer.begin_transaction()
            for n in range(number % 4 + 1):
                producer.send(f"{number}.{n}", key=b"k", partition=number % 2, headers={"n": b"%d" % n})
            producer.abort_transaction() if number % 3 == 0 else producer.commit_transaction()


def send_to(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        for n in range(count):
            producer.send(f"{n}", partition=partition)


def placed(cluster: Cluster, topic: str) -> list[tuple[object, ...]]:
    """All records, each with its place."""
    with ottla.Admin(cluster.bootstrap) as admin:
        if not admin.topics.exists(topic):
            return []
    return sorted((r.partition, r.offset, r.value, r.key, r.timestamp) for r in everything(cluster, topic))


def position_of(flow: Flow, partition: ottla.TopicPartition) -> int:
    copied = flow.partitions.get(partition)
    return -1 if copied is None or copied.position is None else copied.position.offset


def trouble_of(flow: Flow, partition: ottla.TopicPartition) -> str:
    copied = flow.partitions.get(partition)
    return "" if copied is None else copied.error


def test_each_record_is_at_its_own_offset_whichever_mirror_copies(cluster: Cluster, west: Cluster, topic: str) -> None:
    copy = f"east.{topic}"
    write(cluster, topic, 0, 30)
    with mirrored(cluster, west, topic, KEPT) as (_flow,):
        wait_until(lambda: placed(west, copy) == placed(cluster, topic))
    for round_ in (1, 2):
        write(cluster, topic, 30 * round_, 30)
        with mirrored(cluster, west, topic, KEPT, mirrors=2) as flows:
            wait_until(lambda: placed(west, copy) == placed(cluster, topic))
            assert {p.error for flow in flows for p in flow.partitions.values()} <= {""}
    assert len(placed(west, copy)) > 100


def test_a_log_that_begins_late_begins_there_in_the_copy(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin
) -> None:
    cluster.produce(topic, [f"{n}" for n in range(40)])
    for partition, end in admin.topics.offsets(topic).items():
        admin.topics.delete_records(topic, {partition: (end or 0) // 2})
    with mirrored(cluster, west, topic, KEPT):
        wait_until(lambda: placed(west, f"east.{topic}") == placed(cluster, topic))
    with ottla.Admin(west.bootstrap) as target:
        assert target.topics.offsets(f"east.{topic}", "earliest") == admin.topics.offsets(topic, "earliest")


def test_a_group_has_the_same_offsets_in_both(cluster: Cluster, west: Cluster, topic: str) -> None:
    write(cluster, topic, 0, 40)
    group, places = f"g-{topic}", [ottla.TopicPartition(topic, n) for n in range(2)]
    committed = {place: record[1] for place in places for record in placed(cluster, topic) if record[0] == place[1]}
    half = {place: int(str(offset)) // 2 for place, offset in committed.items()}
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.groups.commit(group, half)
    with mirrored(cluster, west, topic, KEPT, groups=(group,)), ottla.Admin(west.bootstrap) as target:
        wait_until(lambda: target.groups.exists(group))
        copies = {ottla.TopicPartition(f"east.{p.topic}", p.partition): offset for p, offset in half.items()}
        wait_until(lambda: ahead_of(west, target.groups.committed(group)) == ahead_of(cluster, half))
        assert all(target.groups.committed(group)[copy] <= offset for copy, offset in copies.items())


def ahead_of(cluster: Cluster, committed: dict[ottla.TopicPartition, int]) -> Sequence[object]:
    """What a group with these offsets has before it."""
    return sorted(
        record[1:] for place, offset in committed.items() for record in placed(cluster, place.topic)
        if record[0] == place.partition and int(str(record[1])) >= offset
    )  # fmt: skip


def test_what_else_has_been_written_to_a_copy_is_named_and_the_rest_goes_on(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    send_to(cluster, topic, 0, 20)
    with ottla.Admin(west.bootstrap) as target:
        target.topics.create(f"east.{topic}", partitions=2)
    send_to(west, f"east.{topic}", 0, 1)
    with mirrored(cluster, west, topic, KEPT) as (flow,):
        wait_until(lambda: "other records end there at offset 1" in trouble_of(flow, ottla.TopicPartition(topic, 0)))
        send_to(cluster, topic, 1, 2)
        wait_until(lambda: position_of(flow, ottla.TopicPartition(topic, 1)) == 2)


def test_of_a_topic_that_was_made_anew_nothing_is_copied_until_its_copy_is_deleted(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin
) -> None:
    name = f"{topic}-anew"
    copy, partition = f"east.{name}", ottla.TopicPartition(name, 0)
    admin.topics.create(name, partitions=1)
    cluster.produce(name, [f"former {n}" for n in range(50)])
    with mirrored(cluster, west, name, KEPT) as (flow,), ottla.Admin(west.bootstrap) as target:
        wait_until(lambda: len(placed(west, copy)) == 50)
        admin.topics.delete(name)
        wait_until(lambda: not admin.topics.exists(name))
        admin.topics.create(name, partitions=1)
        cluster.produce(name, [f"{n}" for n in range(20)])
        wait_until(lambda: "recreated" in trouble_of(flow, partition))
        assert len(placed(west, copy)) == 50
        target.topics.delete(copy)
        wait_until(lambda: placed(west, copy) == placed(cluster, name))
