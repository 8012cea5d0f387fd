"""Groups that go on in another cluster: at the very record, wherever they were, and back again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mirror_process import MirrorProcess
from mirrors import copied, everything, mirrored
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_mirror.failover import fail_back, fail_over, last_positions
from ottla_mirror.machines.mirror_records import Checkpoint, read_checkpoint


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


def write_transactions(east: Cluster, topic: str, first: int, count: int) -> None:
    """So many records, a few in each transaction, so that offsets here and there differ; every value is another."""
    with ottla.Producer(east.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        for start in range(first, first + count, 7):
            with producer.transaction() as transaction:
                for n in range(start, min(start + 7, first + count)):
                    transaction.send(f"{n}", partition=n % 2)


def consume(where: Cluster, topic: str, group: str, count: int) -> list[str]:
    """So many records as a member of the group, which has committed them when this returns."""
    values: list[str] = []
    with ottla.Consumer[Any, Any](
        topic, bootstrap=where.bootstrap, group=group, auto_offset_reset="none", start="committed", max_poll_records=5
    ) as consumer:
        while len(values) < count:
            values += [record.value for record in consumer.poll(10.0, max_records=min(5, count - len(values)))]
    return values


def begin_at_earliest(where: Cluster, topic: str, group: str) -> None:
    with ottla.Admin(where.bootstrap) as admin:
        admin.groups.commit(group, {ottla.TopicPartition(topic, number): 0 for number in range(2)})


def committed(where: Cluster, group: str, topic: str) -> dict[int, int]:
    with ottla.Admin(where.bootstrap) as admin:
        if not admin.groups.exists(group):
            return {}
        return {p.partition: at for p, at in admin.groups.committed(group).items() if p.topic == topic}


def ahead(where: Cluster, topic: str, offsets: dict[int, int]) -> set[str]:
    """The values that a reader at these offsets has before it."""
    records = everything(where, topic)
    return {record.value.decode() for record in records if record.value and record.offset >= offsets[record.partition]}


def test_a_groups_offsets_are_kept_current_and_it_goes_on_at_the_very_record(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    write_transactions(cluster, topic, 0, 100)
    begin_at_earliest(cluster, topic, f"g-{topic}")
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        had = set(consume(cluster, topic, f"g-{topic}", 30))
        left = {f"{n}" for n in range(100)} - had
        copy = f"east.{topic}"
        wait_until(lambda: len(at := committed(west, f"g-{topic}", copy)) == 2 and ahead(west, copy, at) == left)
        had |= set(consume(cluster, topic, f"g-{topic}", 20))
        left -= had
        wait_until(lambda: ahead(west, copy, committed(west, f"g-{topic}", copy)) == left)
        assert flow.groups.troubles == {}
    assert sorted(consume(west, copy, f"g-{topic}", 50)) == sorted(left)
    found: dict[ottla.TopicPartition, Checkpoint | None] = {}
    for record in everything(west, "east.checkpoints.internal"):
        checkpoint = read_checkpoint(record.key or b"", record.value or b"")
        if checkpoint is not None and checkpoint.group == f"g-{topic}":
            found[checkpoint.copy] = checkpoint
    sources = committed(cluster, f"g-{topic}", topic)
    assert {p.partition: c.source_offset for p, c in found.items() if c is not None} == sources


def test_a_group_that_has_gone_on_by_itself_is_not_led_back(cluster: Cluster, west: Cluster, topic: str) -> None:
    write_transactions(cluster, topic, 0, 60)
    begin_at_earliest(cluster, topic, f"g-{topic}")
    copy = f"east.{topic}"
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        wait_until(lambda: len(copied(west, topic)) == 60)
        wait_until(lambda: committed(west, f"g-{topic}", copy) == {0: 0, 1: 0})
        with ottla.Consumer[Any, Any](copy, bootstrap=west.bootstrap, group=f"g-{topic}") as member:
            read: list[Any] = []
            wait_until(lambda: read.extend(member.poll(0.5)) or len(read) == 60)  # of both partitions
            consume(cluster, topic, f"g-{topic}", 4)
            wait_until(lambda: f"g-{topic}" in flow.groups.troubles)
            assert "member" in flow.groups.troubles[f"g-{topic}"]
        there = committed(west, f"g-{topic}", copy)
        wait_until(lambda: flow.groups.troubles == {})
        assert committed(west, f"g-{topic}", copy) == there, "it has had those records"


@pytest.mark.feature(154)
def test_a_group_goes_on_when_its_cluster_is_lost(west: Cluster, tmp_path: Path) -> None:
    with Cluster(brokers=1, txn_coordinators=1) as lost:
        with ottla.Admin(lost.bootstrap) as admin:
            admin.topics.create("standby", partitions=2)
        write_transactions(lost, "standby", 0, 100)
        begin_at_earliest(lost, "standby", "readers")
        mirror = MirrorProcess(tmp_path, lost.bootstrap, west.bootstrap, "standby", delivery="exactly_once")
        with mirror:
            had = set(consume(lost, "standby", "readers", 37))
            left = {f"{n}" for n in range(100)} - had
            copy = "east.standby"
            wait_until(lambda: len(at := committed(west, "readers", copy)) == 2 and ahead(west, copy, at) == left)
            lost.brokers[0].kill()
            wait_until(lambda: mirror.flow().trouble)
            moved = mirror.cli("failover", "east->west", "--group", "readers", "--yes")
            assert {(line["topic"], line["partition"], line["to_topic"]) for line in moved} <= {
                ("standby", 0, copy), ("standby", 1, copy)
            }  # fmt: skip
            assert mirror.flow().paused
            assert sorted(consume(west, copy, "readers", len(left))) == sorted(left)
            mirror.cli("resume", "east->west")
            mirror.terminate()


@pytest.mark.feature(154)
def test_at_failover_the_flow_pauses_and_at_failback_a_group_returns(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    write_transactions(cluster, topic, 0, 80)
    begin_at_earliest(cluster, topic, f"g-{topic}")
    copy, group = f"east.{topic}", f"g-{topic}"
    with mirrored(cluster, west, topic, "exactly_once", groups=(group,)) as (flow,):
        had = set(consume(cluster, topic, group, 25))
        wait_until(lambda: len(copied(west, topic)) == 80)
        moved = fail_over(flow, [])
        assert (moved.source_reached, [(m.group, m.error) for m in moved.groups]) == (True, [(group, None)])
        had |= set(consume(west, copy, group, 30))
        assert len(had) == 55, "none is read again"
        write_transactions(cluster, topic, 80, 20)
        returned = fail_back(flow, [group])
        assert [(m.group, m.error) for m in returned.groups] == [(group, None)]
        left = {f"{n}" for n in range(100)} - had
        assert sorted(consume(cluster, topic, group, len(left))) == sorted(left)
        wait_until(lambda: len(copied(west, topic)) == 100)


def forget(where: Cluster, group: str) -> None:
    """What becomes of a group whose members are away for offsets.retention.minutes."""
    with ottla.Admin(where.bootstrap) as admin:
        if admin.groups.exists(group):
            admin.groups.delete(group)


@pytest.mark.story("groups-at-rest-left-behind")
def test_a_group_whose_offsets_have_expired_goes_on_by_its_last_checkpoints(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    """In either cluster: checkpoints follow it to the target, too."""
    write_transactions(cluster, topic, 0, 80)
    begin_at_earliest(cluster, topic, f"g-{topic}")
    copy, group = f"east.{topic}", f"g-{topic}"
    with mirrored(cluster, west, topic, "exactly_once", groups=(group,)) as (flow,):
        had = consume(cluster, topic, group, 25)
        left = {f"{n}" for n in range(80)} - set(had)
        wait_until(lambda: len(at := committed(west, group, copy)) == 2 and ahead(west, copy, at) == left)
        forget(cluster, group)
        forget(west, group)
        moved = fail_over(flow, [])
        assert [(m.group, m.error, len(m.positions)) for m in moved.groups] == [(group, None, 2)]
        had += consume(west, copy, group, 30)
        now = committed(west, group, copy)
        wait_until(lambda: {p.copy.partition: p.offset for p in last_positions(flow, group)} == now)
        forget(west, group)
        returned = fail_back(flow, [])
        assert [(m.group, m.error, len(m.positions)) for m in returned.groups] == [(group, None, 2)]
        had += consume(cluster, topic, group, 25)
    assert sorted(had, key=int) == [f"{n}" for n in range(80)]


def test_a_paused_flow_copies_nothing_and_goes_on_where_it_was(cluster: Cluster, west: Cluster, topic: str) -> None:
    write_transactions(cluster, topic, 0, 10)
    with mirrored(cluster, west, topic, "at_least_once", mirrors=2) as flows:
        wait_until(lambda: len(copied(west, topic)) == 10)
        flows[0].state.order(paused=True)
        wait_until(lambda: all(flow.copier is not None and flow.copier.paused for flow in flows))
        write_transactions(cluster, topic, 10, 10)
    with mirrored(cluster, west, topic, "at_least_once") as (flow,):
        wait_until(lambda: len(flow.partitions) == 2 and flow.state.paused)
        assert flow.positions() == {}
        assert len(copied(west, topic)) == 10, "a pause outlives the mirrors"
        flow.state.order(paused=False)
        wait_until(lambda: len(copied(west, topic)) == 20)


def test_heartbeats_say_that_the_flow_is_alive(cluster: Cluster, west: Cluster, topic: str) -> None:
    with mirrored(cluster, west, topic, "at_least_once", heartbeats=True):
        wait_until(lambda: len(copied(west, "heartbeats")) >= 3)
        (key,) = {record.key for record in copied(west, "heartbeats")}
        assert key == b"\0\4east\0\4west"


@pytest.mark.feature(155)
@pytest.mark.parametrize("way", ["auto reset", "offset replication", "time", "translation"])
def test_each_way_to_find_where_to_start_in_the_copy_misses_nothing(
    cluster: Cluster, west: Cluster, topic: str, way: str
) -> None:
    """The book's four: to begin again, to have the group's offsets, to go by the clock, to look the offset up."""
    write_transactions(cluster, topic, 0, 40)
    time.sleep(0.01)  # records of another millisecond
    at = datetime.now(UTC)
    begin_at_earliest(cluster, topic, f"g-{topic}")
    had = set(consume(cluster, topic, f"g-{topic}", 40))
    write_transactions(cluster, topic, 40, 40)
    copy = f"east.{topic}"
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        wait_until(lambda: len(copied(west, topic)) == 80)
        positions = committed(cluster, f"g-{topic}", topic)
        wait_until(lambda: all(flow.syncs.end(ottla.TopicPartition(topic, n)) > positions[n] for n in range(2)))
        wait_until(lambda: len(committed(west, f"g-{topic}", copy)) == 2)
        starts: dict[str, dict[str, Any]] = {
            "auto reset": {"auto_offset_reset": "earliest", "group": f"another-{topic}"},
            "offset replication": {"group": f"g-{topic}"},
            "time": {"start": at},
            "translation": {
                "start": {
                    (copy, number): flow.syncs.translate(ottla.TopicPartition(topic, number), position)
                    for number, position in positions.items()
                }
            },
        }
        with ottla.Consumer[Any, Any](copy, bootstrap=west.bootstrap, stop="end", **starts[way]) as consumer:
            values = [record.value for record in consumer]
    assert sorted(values, key=int) == [f"{n}" for n in range(0 if way == "auto reset" else 40, 80)]
    assert len(had) == 40


@pytest.mark.story("group-moved-by-a-former-topic")
@pytest.mark.parametrize("recreated", ["source", "target"])
def test_of_a_topic_that_was_created_again_between_failover_and_failback_no_group_is_moved(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, recreated: str
) -> None:
    """It is named, and the group's other topic goes on."""
    other, group = f"{topic}-other", f"g-{topic}"
    admin.topics.create(other, partitions=2)
    for name in (topic, other):
        write_transactions(cluster, name, 0, 40)
        begin_at_earliest(cluster, name, group)
    with mirrored(cluster, west, f"{topic}.*", "exactly_once") as (flow,), ottla.Admin(west.bootstrap) as target:
        wait_until(lambda: all(len(committed(west, group, f"east.{name}")) == 2 for name in (topic, other)))
        assert not any(position.obstacle for position in fail_over(flow, [group]).groups[0].positions)
        where, name, there = (admin, topic, cluster) if recreated == "source" else (target, f"east.{topic}", west)
        where.topics.delete(name)
        wait_until(lambda: not where.topics.exists(name))
        where.topics.create(name, partitions=2)
        write_transactions(there, name, 0, 10)
        at = {ottla.TopicPartition(f"east.{each}", number): 3 for each in (topic, other) for number in range(2)}
        target.groups.commit(group, at)
        (moved,) = fail_back(flow, [group]).groups
        named = {position.partition.topic: position.obstacle for position in moved.positions}
        assert f"{name} was recreated" in named[f"east.{topic}"]
        assert named[f"east.{other}"] == ""
        assert set(committed(cluster, group, other).values()) <= {3, 4}, "behind a marker, or before it"
        assert set(committed(cluster, group, topic).values()) in ({0}, set())
