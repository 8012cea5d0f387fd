"""Which partitions the controller's duties look at: those that a change is about, until each is as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from images import Metadata, after, topic_id
from partitions import broker, image_with, partition
from waiting import until

from ottla_controller import coordinators as coordinators_module
from ottla_controller import reconcile as reconcile_module
from ottla_controller import recovery as recovery_module
from ottla_controller.coordinators import ShardAssigner
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.election import needs_election
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_controller.reconcile import Reconciler
from ottla_controller.recovery import Recoverer
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Change, ClusterImage, Coordinator, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import NO_LEADER, SHARD_TOPICS, PartitionId
from ottla_core.telemetry import Metrics

BROKERS, PARTITIONS = 10, 1_000


class Cluster(Metadata):
    """An image, and what is decided on it; `failures` are raised in place of the next commits."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        super().__init__()
        self.index = PartitionIndex()
        self.on_change(self.index.follow)
        partitions = (partition(n % 10, (n + 1) % 10, (n + 2) % 10) for n in range(PARTITIONS))
        self.become(image or image_with(BROKERS, *partitions))
        self.failures: list[Exception] = []
        self.grace: frozenset[int] = frozenset()
        self.clock = ManualClock()
        self.reconciler = Reconciler(self.this, self.index, lambda: self.grace, self.clock, Metrics())

    @property
    def this(self) -> Any:
        return self

    async def commit(self, decide: Callable[[ClusterImage], Decision[Any]], *, urgent: bool = False) -> Any:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        decision = decide(self.image)
        if decision.writes:
            self.become(after(self.image, decision))
        return decision.response

    def change(self, key: tuple[Any, ...], value: Any) -> None:
        self.become(self.image.with_changes([Change(key, value)], self.image.revision + 1))

    def set_broker(self, number: int, **fields: Any) -> None:
        self.change(("broker", number), broker(number, **fields))

    def is_settled(self) -> bool:
        return not needs_election(self.image, self.grace)


@pytest.fixture
async def cluster(looked: list[PartitionId]) -> AsyncIterator[Cluster]:
    """One whose reconciler runs, and has had its first look."""
    cluster = Cluster()
    running = asyncio.create_task(cluster.reconciler.run(cluster.this))
    await until(lambda: len(looked) == PARTITIONS)
    looked.clear()
    yield cluster
    await end_task(running)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[PartitionId]:
    """What was looked at, each time."""
    looked: list[PartitionId] = []

    def counts(image: ClusterImage, grace: frozenset[int], among: Iterable[PartitionId]) -> list[PartitionId]:
        looked.extend(among)
        return needs_election(image, grace, among)

    monkeypatch.setattr(reconcile_module, "needs_election", counts)
    return looked


async def test_a_brokers_death_is_about_what_it_has(cluster: Cluster, looked: list[PartitionId]) -> None:
    mine = set(cluster.index.of(3))
    cluster.change(("broker", 3), None)
    await until(cluster.is_settled)
    await asyncio.sleep(0.02)
    assert set(looked) == mine
    assert len(looked) <= 4 * len(mine)
    moved = [p.leader_epoch > 5 for p in cluster.image.partitions.values()]
    assert sum(moved) == PARTITIONS / BROKERS


async def test_what_changes_of_a_partition_is_about_that_partition(cluster: Cluster, looked: list[PartitionId]) -> None:
    id_ = next(iter(cluster.image.partitions))
    cluster.change(("partition", id_), replace(cluster.image.partitions[id_], leader=NO_LEADER))
    cluster.change(("topic", "other"), Topic("other", topic_id(7), 1))
    await until(cluster.is_settled)
    await asyncio.sleep(0.02)
    assert set(looked) == {id_, PartitionId(topic_id(7), 0)}
    assert len(looked) < 6


@pytest.mark.story("isrs-shrink-before-leaders-move")
@pytest.mark.parametrize("shutting_down", [False, True])
async def test_leaders_come_before_isrs_of_the_whole_cluster(cluster: Cluster, shutting_down: bool) -> None:
    if shutting_down:
        cluster.set_broker(3, shutting_down=True)
    else:
        cluster.change(("broker", 3), None)
    seen: list[int] = []
    cluster.on_change(lambda old, new: seen.append(sum(p.leader == 3 for p in new.partitions.values())))
    await until(cluster.is_settled)
    assert seen[0] == 0, "a hundred leaderships are one transaction"


async def test_where_time_alone_has_changed_something_what_the_broker_has_is_looked_at(
    cluster: Cluster, looked: list[PartitionId]
) -> None:
    cluster.grace = frozenset({3})
    mine = set(cluster.index.of(3))
    cluster.change(("broker", 3), None)
    await until(lambda: set(looked) == mine)
    assert all(p.leader_epoch == 5 for p in cluster.image.partitions.values())
    looked.clear()
    cluster.grace = frozenset()
    await until(cluster.is_settled)
    assert set(looked) == mine


@pytest.mark.parametrize("failure", [OttlaError(ErrorCode.REQUEST_TIMED_OUT, "away"), ValueError("a bug")])
async def test_what_fails_stays_due(cluster: Cluster, failure: Exception) -> None:
    cluster.failures = [failure] * 2
    cluster.change(("broker", 3), None)
    await until(cluster.is_settled)
    assert not cluster.failures


async def test_a_look_that_fails_is_had_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [ValueError("a bug")]

    def fails_once(*args: Any) -> list[PartitionId]:
        if failing:
            raise failing.pop()
        return needs_election(*args)

    monkeypatch.setattr(reconcile_module, "needs_election", fails_once)
    cluster.change(("broker", 3), None)
    await until(cluster.is_settled)
    assert not failing


async def test_leaders_return_as_soon_as_a_start_of_the_cluster_is_over_and_later_by_the_interval(
    looked: list[PartitionId],
) -> None:
    """Broker 0 comes up first, and leads all partitions."""
    led_by_first = (partition(n % 3, (n + 1) % 3, (n + 2) % 3, leader=0, isr=(0,)) for n in range(9))
    cluster = Cluster(image_with(1, *led_by_first))
    first, *others = cluster.image.partitions

    def change(id_: PartitionId, **fields: Any) -> None:
        cluster.change(("partition", id_), replace(cluster.image.partitions[id_], **fields))

    async def look_at_last() -> None:
        """Wait for two looks, because the first is over when the second begins."""
        for _ in range(2):
            looked.clear()
            change(first, partition_epoch=cluster.image.partitions[first].partition_epoch + 1)
            await until(lambda: first in looked)

    def leaders() -> set[int]:
        return {p.leader for p in cluster.image.partitions.values()}

    def are_preferred() -> bool:
        return all(p.leader == p.replicas[0] for p in cluster.image.partitions.values())

    running = asyncio.create_task(cluster.reconciler.run(cluster.this))
    await look_at_last()
    for number in (1, 2):
        cluster.set_broker(number)
    for id_ in others:
        change(id_, isr=(0, 1, 2))
    await look_at_last()
    assert leaders() == {0}, "a replica is not in sync yet"
    change(first, isr=(0, 1, 2))
    await until(are_preferred)
    for id_ in cluster.image.partitions:
        change(id_, leader=0)
    await look_at_last()
    assert leaders() == {0}, "the interval is not over"
    cluster.clock.advance(300)
    await until(are_preferred)
    await end_task(running)


async def test_a_term_begins_with_all_that_came_between(looked: list[PartitionId]) -> None:
    cluster = Cluster()
    for dead in (3, 4):
        cluster.change(("broker", dead), None)
        running = asyncio.create_task(cluster.reconciler.run(cluster.this))
        await until(cluster.is_settled)
        await end_task(running)
    assert len(set(looked)) == PARTITIONS


async def test_logs_are_asked_again_for_what_concerns_a_partition_that_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[set[PartitionId]] = []

    def counts(image: ClusterImage, among: Iterable[PartitionId]) -> dict[int, list[PartitionId]]:
        looks.append(set(among))
        return {}

    monkeypatch.setattr(recovery_module, "to_ask", counts)
    cluster = Cluster()
    recoverer = Recoverer(cluster.this, cluster.index, lambda moved: None)
    running = asyncio.create_task(recoverer.run(cluster.this))
    await until(lambda: len(looks) == 1)
    first, other = list(cluster.image.partitions)[:2]
    cluster.change(("partition", first), Partition((0, 1), last_known_elr=(0, 1)))
    await until(lambda: len(looks) == 2)
    assert looks.pop() == {first}
    cluster.change(("partition", other), replace(cluster.image.partitions[other], partition_epoch=10))
    cluster.set_broker(7, fenced=True)
    await asyncio.sleep(0.02)
    assert len(looks) == 1, "neither has to do with it"
    cluster.set_broker(1, fenced=True)
    await until(lambda: len(looks) == 2)
    await end_task(running)


async def test_metadata_that_is_behind_is_counted_as_restored_though_no_partition_waits_yet() -> None:
    cluster = Cluster()
    recoverer = Recoverer(cluster.this, cluster.index, lambda moved: None)
    running = asyncio.create_task(recoverer.run(cluster.this))
    await asyncio.sleep(0.02)
    cluster.set_broker(1, ahead_of=cluster.image.revision)
    await until(lambda: cluster.image.restored.count == 1)
    await end_task(running)


async def test_shards_depend_on_their_own_topics_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(coordinators_module, "unassigned_kinds", lambda image: looks.append(image.revision) or [])
    monkeypatch.setattr(coordinators_module, "unfinished", lambda image: [])
    cluster = Cluster()
    running = asyncio.create_task(ShardAssigner(cluster.this, lambda: topic_id(8), Metrics()).run(cluster.this))
    await until(lambda: len(looks) == 1)
    id_ = next(iter(cluster.image.partitions))
    cluster.change(("partition", id_), replace(cluster.image.partitions[id_], partition_epoch=10))
    cluster.change(("topic", "other"), Topic("other", topic_id(7), 1))
    await asyncio.sleep(0.02)
    assert len(looks) == 1
    shard = PartitionId(topic_id(9), 0)
    for number, (key, value) in enumerate(
        (
            (("partition", shard), partition(0, 1)),
            (("topic", SHARD_TOPICS["group"]), Topic(SHARD_TOPICS["group"], topic_id(9), 1)),
            (("partition", shard), partition(0, 1, leader=1)),
            (("coordinator", "group", 1), Coordinator("group", 1, 5, "host:1")),
            (("topic", SHARD_TOPICS["group"]), None),
        )
    ):
        cluster.change(key, value)
        if number:  # before the topic its partitions mean nothing
            await until(lambda number=number: len(looks) == 1 + number)
    await end_task(running)
