"""What Prometheus is told of groups: within a limit, and only while somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from batches import NOON, raw_batch, sealed, simple_records
from groups import Shard, subscription
from waiting import until

from ottla_core.clock import ManualClock
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import MemberAssignment, encode_assignment
from ottla_core.model import TopicPartition
from ottla_core.telemetry import Metrics
from ottla_group_coordinator import scraped_metrics as under_test
from ottla_group_coordinator.group_metrics import GroupMetrics
from ottla_group_coordinator.lag import Lag, Lags, _timestamp_at
from ottla_group_coordinator.machines import history
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import CallerIdentity, GroupSettings
from ottla_group_coordinator.machines.offsets import NO_GENERATION, ToCommit, decide_commit
from ottla_group_coordinator.machines.transition import Transition
from ottla_group_coordinator.scraped_metrics import ScrapedGroupMetrics

AT_ONCE = GroupSettings(initial_rebalance_delay_ms=0)


class Stack:
    """Two shards, one of which is `loading`; leaders that answer while `let` is set."""

    def __init__(self) -> None:
        self.shard = Shard(AT_ONCE)
        self.clock = ManualClock(monotonic=1_000.0)
        self.metrics = Metrics()
        self.let = asyncio.Event()
        self.let.set()
        self.asked: list[Mapping[TopicPartition, int]] = []
        shards: Any = self
        self.scraped = ScrapedGroupMetrics(shards, self, self.metrics, self.clock, most_partitions=3)

    def owned(self) -> list[int]:
        return [0, 1]

    async def ask_shard(self, number: int, decide: Any, *, timeout: float, without_confirmation: bool = False) -> Any:
        if number == 1:
            raise OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it loads")
        return decide(self.shard.machine, Moment(0.0, 0)).response

    async def lags(self, committed: Mapping[TopicPartition, int]) -> Lags:
        await self.let.wait()
        self.asked.append(committed)
        lost = OttlaError(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads it")
        return {
            p: Lag(at, 0, at + 5, self.clock.wall_ms() - 1_000) if p.partition else Lag(at, error=lost)
            for p, at in committed.items()
        }

    def scrape(self) -> dict[str, dict[tuple[str, ...], float]]:
        return {name: dict(table.read()) for name, table in self.metrics.tables.items()}

    def left_out(self) -> float:
        (read,) = self.metrics.samples["ottla_group_lag_left_out"].values()
        assert callable(read)
        return read()


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    stack = Stack()
    for name in ("a", "b", "c"):
        wanted = [ToCommit(TopicPartition("t", n), 10, -1, "") for n in range(2)]
        stack.shard.take(
            decide_commit(
                Group(name), CallerIdentity(""), NO_GENERATION, wanted, stack.shard.topics, AT_ONCE, stack.shard.now
            )
        )
    await stack.scraped.start()
    yield stack
    await stack.scraped.stop()


async def test_a_scrape_waits_for_nobody_and_wakes_the_look(stack: Stack) -> None:
    stack.let.clear()
    assert stack.scrape()["ottla_groups"] == {}
    stack.let.set()
    await until(lambda: stack.scrape()["ottla_groups"])
    counts = stack.scrape()
    assert counts["ottla_groups"]["Empty", "classic"] == 3
    assert counts["ottla_group_members"] == {("a",): 0, ("b",): 0, ("c",): 0}
    assert counts["ottla_group_lag_records"] == {("a", "t", "1"): 5}, "what nobody leads has no number"
    stack.clock.advance(9)
    assert stack.scrape()["ottla_group_lag_seconds"] == {("a", "t", "1"): 10.0}, "it goes on counting"


@pytest.mark.story("series-missing-at-slow-scrapes")
async def test_each_scrape_has_series_however_long_ago_the_last_one_was(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "LOOK_S", 0.0)
    stack.shard.commit(1)
    for _ in range(3):
        assert (await asyncio.to_thread(stack.scrape))["ottla_groups"]
        stack.clock.advance(under_test.STALE_S + 10)


async def test_a_coordinator_without_groups_holds_up_its_first_scrape_alone(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.shard = Shard(AT_ONCE)
    waits: list[float] = []
    wait = stack.scraped._looked.wait
    monkeypatch.setattr(stack.scraped._looked, "wait", lambda limit_s: waits.append(limit_s) or wait(limit_s))
    for _ in range(3):
        assert (await asyncio.to_thread(stack.scrape))["ottla_groups"] == {}
    assert len(waits) <= 1, "none where the look is over before the scrape comes to wait for it"


async def test_what_is_beyond_the_limit_is_counted_and_not_asked_for(stack: Stack) -> None:
    stack.scrape()
    await until(lambda: stack.scrape()["ottla_groups"])
    assert [len(some) for some in stack.asked] == [2, 1]
    assert stack.left_out() == 3


async def test_nobody_is_asked_unless_somebody_scrapes(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "LOOK_S", 0.0)
    stack.scrape()
    await until(lambda: len(stack.asked) == 2)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(stack.asked) == 2
    stack.clock.advance(under_test.STALE_S + 1)
    assert stack.scrape()["ottla_group_lag_records"] == {}, "an hour ago is not now"
    assert stack.left_out() == 0
    await until(lambda: len(stack.asked) == 4)
    await until(lambda: stack.scrape()["ottla_group_lag_records"])


async def test_it_looks_at_most_so_often(stack: Stack) -> None:
    for _ in range(20):
        stack.scrape()
        await asyncio.sleep(0.001)
    await until(lambda: stack.scrape()["ottla_groups"])
    assert len(stack.asked) == 2, "one look"


# ---- counters -------------------------------------------------------------------------------------------------------


def counted(shard: Shard) -> dict[str, int]:
    metrics = Metrics()
    group_metrics = GroupMetrics(metrics)
    for effect in shard.happened:
        group_metrics.on_effect(0, 1, effect)
    counts = {dict(labels)["cause"]: c.value for labels, c in metrics.samples["ottla_group_rebalances_total"].items()}  # type: ignore[union-attr]  # counters
    counts["moved"] = metrics.counter("ottla_group_partitions_moved_total", "").value
    counts["evictions"] = metrics.counter("ottla_group_evictions_total", "").value
    counts["ended"] = sum(metrics.histogram("ottla_group_rebalance_seconds", "").counts)
    return {name: n for name, n in counts.items() if n}


def assigned(*partitions: int) -> bytes:
    return encode_assignment(MemberAssignment(tuple(TopicPartition("t", n) for n in partitions)))


def two_members() -> Shard:
    """m1 leads and has 0 and 1, m2 has 2 and 3."""
    shard = Shard(AT_ONCE)
    shard.join()
    shard.sync("m1", 1, {"m1": assigned(0, 1, 2, 3)})
    shard.join()
    shard.join("m1", key="again")
    shard.sync("m2", 2)
    shard.sync("m1", 2, {"m1": assigned(0, 1), "m2": assigned(2, 3)})
    return shard


def test_rebalances_are_counted_by_what_set_them_off() -> None:
    shard = two_members()
    assert counted(shard) == {"joined": 2, "moved": 2, "ended": 2}


def test_what_one_had_who_has_gone_has_moved() -> None:
    shard = two_members()
    for _ in range(11):  # m1 beats, m2 is silent
        shard.sleep(1)
        shard.heartbeat("m1", 2)
    shard.join("m1", key="after")
    shard.sync("m1", 3, {"m1": assigned(0, 1, 2, 3)})
    assert counted(shard) == {"joined": 2, "evicted": 1, "evictions": 1, "moved": 4, "ended": 3}
    shard.join("m1", key="once-more", reason="why not")
    shard.sync("m1", 4, {"m1": assigned(0, 1, 2, 3)})
    assert counted(shard)["moved"] == 4, "it moves once"


def test_what_one_gives_up_before_another_reads_it_moves_once() -> None:
    shard = two_members()
    shard.join("m1", key="gives up", reason="")
    shard.join("m2", key="too")
    shard.sync("m2", 3)
    shard.sync("m1", 3, {"m1": assigned(0), "m2": assigned(2, 3)})
    assert (counted(shard)["moved"], dict(shard.group().former_readers)) == (2, {TopicPartition("t", 1): "m1"})
    shard.join("m1", key="once more")
    shard.join("m2", key="too, once more")
    shard.sync("m2", 4)
    shard.sync("m1", 4, {"m1": assigned(0), "m2": assigned(1, 2, 3)})
    assert (counted(shard)["moved"], dict(shard.group().former_readers)) == (3, {})


def test_what_no_member_is_given_any_more_is_forgotten() -> None:
    """A group that reads topics by a pattern lasts longer than they do."""
    shard = two_members()
    for generation in (3, 4):
        shard.join("m1", key=f"one {generation}", reason="")
        shard.join("m2", key=f"two {generation}")
        shard.sync("m2", generation)
        shard.sync("m1", generation, {"m1": assigned(0), "m2": assigned(2, 3)})
    assert not shard.group().former_readers


def test_what_a_group_of_nobody_had_is_not_remembered() -> None:
    shard = two_members()
    shard.leave("m1")
    shard.leave("m2")
    assert not shard.group().former_readers
    shard.join()
    shard.sync("m3", 4, {"m3": assigned(0, 1, 2, 3)})
    assert counted(shard)["moved"] == 2, "nobody's partitions don't move"


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("t has 6 partitions, but the last assignment covered 4", "partitions"),
        ("t has 1 partition, but the last assignment covered 0", "partitions"),
        ("cached metadata has changed from (version 3) to (version 4)", "partitions"),
        ("need to revoke partitions", "asked"),
        ("", "asked"),
    ],
)
def test_a_leader_that_joins_again_says_why(reason: str, cause: str) -> None:
    shard = two_members()
    shard.join("m1", key="k", reason=reason)
    assert counted(shard)[cause] == 1
    began = shard.events()[-1]
    assert began.cause == "client asked to join again" + (f": {reason}" if reason else "")


def test_leaving_and_coming_back_changed_are_causes_too() -> None:
    shard = two_members()
    shard.leave("m2")
    assert counted(shard)["left"] == 1
    static = Shard(AT_ONCE)
    static.join(instance_id="i1")
    static.sync("m1", 1, {"m1": assigned(0)})
    static.join(instance_id="i1", protocols={"range": subscription("u")})
    assert counted(static)["replaced"] == 1


@pytest.mark.story("history-reads-all-that-is-assigned")
def test_of_more_partitions_than_are_looked_at_none_is_remembered() -> None:
    shard, many = two_members(), assigned(*range(history.MOST_READ))
    shard.join("m1", key="one", reason="")
    shard.join("m2", key="two")
    shard.sync("m2", 3)
    shard.sync("m1", 3, {"m1": many, "m2": assigned(0)})
    said = [event.cause for event in shard.events() if event.kind is history.Kind.ASSIGNED]
    assert said[-1] == "2 members in the group; with more than 20,000 partitions it is not counted which have moved"
    assert counted(shard)["moved"] == 2, "as before"
    shard.join("m2", key="two again", reason="")
    shard.sleep(61)  # m1 has not come back, and is out
    assert shard.group().members.get("m1") is None
    assert not shard.group().former_readers


@pytest.mark.story("members-that-go-at-once-are-remembered-one-by-one")
def test_what_many_who_go_at_once_had_is_remembered_together() -> None:
    before = Group("g", former_readers={TopicPartition("t", 0): "m0"})
    step = Transition(before, Moment(0.0, 0))
    step.remember({TopicPartition("t", 1): "m1"})
    remembered = step.group.former_readers
    step.remember({TopicPartition("t", 2): "m2"})
    assert step.group.former_readers is remembered
    assert [p.partition for p in remembered] == [0, 1, 2]
    step.remember({TopicPartition("t", n): "m3" for n in range(3, history.MOST_READ + 3)})
    assert len(remembered) == 3, "that would be too many"
    assert len(before.former_readers) == 1


def test_a_batch_that_no_one_can_read_has_no_time() -> None:
    """Its lag is known all the same, and so is that of the leader's other partitions."""
    assert _timestamp_at(raw_batch(b"no records at all, really", 3), 1) is None
    assert _timestamp_at(sealed(simple_records(3)), 1) == NOON + 1
