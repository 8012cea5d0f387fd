"""The shards of a process: given and taken by the image, asked by many at once, and ended in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from batches import NOON
from owners import Book, get, later, put, resolve, set_timers
from waiting import LIMIT_S, until

from ottla_core.cluster.image import ClusterImage, Partition, Shard, Topic
from ottla_core.coordination.batches import read_batches
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.memory_log import MemoryShardLog
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.coordination.shard import Recalled, Resolve, ShardDecision
from ottla_core.coordination.shard_log import (
    Append,
    Batches,
    Call,
    Check,
    Fenced,
    Mismatch,
    Rejected,
    Result,
    Unknown,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.processor_time import ProcessorTime
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.routing import shard_of
from ottla_core.telemetry import Metrics

OFFSETS = Topic("__consumer_offsets", TopicId(b"o" * 16), 4)
IMAGE = ClusterImage("c", topics={OFFSETS.name: OFFSETS})
ME, INCARNATION = 7, 700
LIMITS = ShardLimits(unproved_s=20.0, append_s=10.0, retry_s=0.01, call_s=5.0)
KEY = next(key for key in map(str, range(100)) if shard_of(key, 4) == 2)


def given(*shards: int, epoch: int = 1, owner: int = ME, incarnation: int = INCARNATION) -> ClusterImage:
    """The image in which these shards are the owner's, and no others."""
    return replace(IMAGE, shards={("group", n): Shard(owner, incarnation, epoch) for n in shards})


class Process:
    """One coordinator on a log that others may use too."""

    def __init__(self, log: MemoryShardLog, limits: ShardLimits = LIMITS) -> None:
        self.log = log
        self.metrics = Metrics()
        self.released: list[tuple[int, int]] = []
        self.refusing: list[OttlaError] = []
        self.performed: list[tuple[int, int, Any]] = []
        self.lost: list[tuple[int, int]] = []
        self.books: list[Book] = []
        self.incarnation: int | None = INCARNATION
        self.shards: OwnedShards[Book] = OwnedShards(
            "group",
            ME,
            lambda: self.incarnation,
            log,
            self._new_book,
            self._release,
            metrics=self.metrics,
            perform=lambda shard, epoch, effect: self.performed.append((shard, epoch, effect)),
            when_left=lambda shard, epoch: self.lost.append((shard, epoch)),
            limits=limits,
        )

    def _new_book(self, shard: int) -> Book:
        self.books.append(Book())
        return self.books[-1]

    async def _release(self, shard: int, epoch: int) -> None:
        self.released.append((shard, epoch))
        if self.refusing:
            raise self.refusing.pop()

    def on_image(self, image: ClusterImage) -> None:
        self.shards.on_image(IMAGE, image)

    async def until_serving(self, count: int) -> None:
        await until(lambda: self.gauge("ottla_shards_serving") == count)

    def gauge(self, name: str) -> float:
        read: Any = self.metrics.samples[name][(("kind", "group"),)]
        return float(read())

    async def put(self, value: bytes) -> Any:
        return await self.shards.ask(KEY, put(b"k", value), timeout=20)


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    process = Process(MemoryShardLog())
    await process.shards.start()
    yield process
    await process.shards.kill()


def code(raised: pytest.ExceptionInfo[OttlaError]) -> int:
    return raised.value.code


async def test_a_shard_is_served_by_whom_the_image_names_and_by_nobody_else(process: Process) -> None:
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # it is not known yet how many shards there are
    process.on_image(given(2, owner=8))
    process.on_image(given(2, incarnation=699))  # a former registration of this very instance
    process.incarnation = None
    process.on_image(given(2))  # which has no seat at the moment
    assert process.shards.owned() == []
    process.incarnation = INCARNATION
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    process.on_image(given(0, 2))
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await process.until_serving(2)
    assert process.shards.owned() == [0, 2]
    assert await process.put(b"1") is None
    process.on_image(given(0))
    assert process.shards.owned() == [0]
    with pytest.raises(OttlaError) as raised:
        await process.put(b"2")
    assert code(raised) == ErrorCode.NOT_COORDINATOR


async def test_the_next_owner_has_all_that_was_acknowledged(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    for n in range(10):
        await process.put(b"%d" % n)
    process.on_image(given(2, epoch=2))
    await process.until_serving(1)
    assert await process.shards.ask(KEY, get(b"k"), timeout=20) == b"9"
    assert (len(process.books), process.shards.epoch(2)) == (2, 2)
    with pytest.raises(OttlaError, match="NOT_COORDINATOR"):
        process.shards.epoch(1)
    process.on_image(given(2, epoch=1))  # an image that came late
    assert len(process.books) == 2


async def test_many_at_once_share_their_appends(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    before = len(process.log.calls)
    writes = (process.shards.ask(KEY, put(b"%d" % n), timeout=20) for n in range(300))
    await asyncio.gather(*writes)
    appends = [call for call in process.log.calls[before:] if isinstance(call, Append)]
    assert len(appends) <= 10
    keys = [key for batch in read_batches(process.log.stored(2)) for key, _ in batch.pairs]
    assert sorted(keys) == sorted(b"%d" % n for n in range(300))
    append_seconds: Any = process.shards.append_seconds
    assert sum(append_seconds.counts) >= len(appends)


@pytest.mark.rule(52)
async def test_what_is_at_leisure_comes_by_itself_or_with_the_next(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    await process.shards.begin(2, put(b"k", b"0"), timeout=20, at_leisure=True)
    before = len(process.log.calls)
    leisurely = process.shards.begin(2, put(b"k", b"1"), timeout=20, at_leisure=True)
    assert await process.shards.ask(KEY, get(b"k"), timeout=20) == b"1"
    await leisurely
    assert len(process.log.calls) == before + 1


async def test_what_is_not_committed_answers_nobody(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    process.log.hold()
    writing = asyncio.create_task(process.put(b"1"))
    reading = asyncio.create_task(process.shards.ask(KEY, get(b"k"), timeout=20))
    await until(lambda: process.gauge("ottla_shard_requests_parked") == 2)
    await until(lambda: isinstance(process.log.calls[-1], Append))
    assert not writing.done()
    assert not reading.done()
    process.log.commit()
    assert (await writing, await reading) == (None, b"1")


async def test_answers_that_are_lost_are_asked_for_until_they_come(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    unknown = Unknown(OttlaError(ErrorCode.REQUEST_TIMED_OUT, "lost"))
    process.log.script[:] = [None, unknown, None]
    assert await process.put(b"1") is None
    assert await process.put(b"2") == b"1"
    assert len(list(read_batches(process.log.stored(2)))) == 3  # the fence, and each once


async def test_who_can_not_go_on_asks_for_a_new_epoch_until_it_is_heard(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    process.refusing[:] = [OttlaError(ErrorCode.NOT_CONTROLLER, "not now")]
    process.log.script[:] = [Mismatch(99)]
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    await until(lambda: len(process.released) == 2)
    assert process.released == [(2, 1), (2, 1)]
    assert process.shards.owned() == []
    process.on_image(given(2))  # still the same epoch: it is over
    assert process.shards.owned() == []
    process.on_image(given(2, epoch=2))
    await process.until_serving(1)
    assert await process.put(b"1") is None


async def test_who_is_fenced_asks_for_nothing(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    process.log.script[:] = [Fenced()]
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    await until(lambda: not process.shards._tasks)
    assert process.released == []
    assert process.shards.statuses() == [], "another owner has it, even if the image does not say so yet"
    assert process.gauge("ottla_shard_loading_seconds") == 0


async def test_a_zombie_can_not_write_and_does_not_answer() -> None:
    """Two processes on one log, of which the first has not heard that it was replaced."""
    log = MemoryShardLog()
    zombie, owner = Process(log), Process(log)
    owner.incarnation = 701
    for process in (zombie, owner):
        await process.shards.start()
    zombie.on_image(given(2))
    await zombie.until_serving(1)
    await zombie.put(b"1")
    owner.on_image(given(2, epoch=2, incarnation=701))
    await owner.until_serving(1)
    assert await owner.put(b"2") == b"1"
    with pytest.raises(OttlaError) as raised:
        await zombie.shards.ask(KEY, get(b"k"), timeout=20)
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    assert await owner.shards.ask(KEY, get(b"k"), timeout=20) == b"2"
    for process in (zombie, owner):
        await process.shards.kill()


async def test_what_the_log_surely_refused_is_told_as_it_is(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    process.log.script[:] = [Rejected(OttlaError(ErrorCode.MESSAGE_TOO_LARGE, "the topic takes less"))]
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_request_has_its_time_and_no_more(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    process.log.hold()
    with pytest.raises(OttlaError) as raised:
        await process.shards.ask(KEY, put(b"k"), timeout=0.05)
    assert code(raised) == ErrorCode.REQUEST_TIMED_OUT
    process.log.commit()
    assert await process.put(b"2") == b"v"  # it was done all the same


async def test_a_join_waits_for_the_others_and_effects_are_carried_out(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    joining = asyncio.create_task(process.shards.ask(KEY, later("m1"), timeout=20))
    await until(lambda: process.gauge("ottla_shard_requests_parked") == 1)
    await process.shards.ask(KEY, put(b"k", effects=("news",)), timeout=20)
    await process.shards.ask(KEY, resolve("m1", "joined"), timeout=20)
    assert await joining == "joined"
    assert process.performed == [(2, 1, "news")]


@pytest.mark.story("members-of-a-large-group-are-answered-in-one-turn")
async def test_a_thousand_responses_take_several_turns_of_the_loop_and_keep_their_order(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    keys = [str(number) for number in range(1_000)]
    waiting = [process.shards.begin(2, later(key), timeout=60) for key in keys]
    await process.put(b"1")  # they are decided by then
    answered: list[str] = []
    for answer in waiting:
        answer.add_done_callback(lambda done: answered.append(done.result()))
    resolves = tuple(Resolve(key, key) for key in keys)
    process.shards.begin(2, lambda book, now: ShardDecision(None, effects=resolves), timeout=60)
    last = process.shards.begin(2, put(b"k", b"2"), timeout=60)
    last.add_done_callback(lambda done: answered.append("the last"))
    counts = [0]
    async with asyncio.timeout(LIMIT_S):
        while not last.done():
            await asyncio.sleep(0)
            counts.append(len(answered))
    await asyncio.sleep(0)
    assert answered == [*keys, "the last"]
    assert max(after - before for before, after in pairwise(counts)) <= 100


async def test_what_was_decided_is_answered_though_the_shard_is_left(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    keys = [str(number) for number in range(1_000)]
    waiting = [process.shards.begin(2, later(key), timeout=60) for key in keys]
    await process.put(b"1")
    resolves = tuple(Resolve(key, key) for key in keys)
    process.shards.begin(2, lambda book, now: ShardDecision(None, effects=resolves), timeout=60)
    async with asyncio.timeout(LIMIT_S):
        while not waiting[0].done():
            await asyncio.sleep(0)
        assert not waiting[-1].done()
        process.on_image(given())
        assert await asyncio.gather(*waiting) == keys


async def test_a_service_hears_which_epoch_is_over_and_no_effect_of_it_comes_after(process: Process) -> None:
    """However it ends: given to another, given anew, deposed by a fence, or the process stops; each epoch once."""
    events: list[tuple[int, Any]] = []
    process.shards.perform = lambda shard, epoch, effect: events.append((epoch, effect))
    process.shards._when_left = lambda shard, epoch: events.append((epoch, "left"))
    process.on_image(given(2))
    await process.until_serving(1)
    process.log.hold()
    writing = asyncio.create_task(process.shards.ask(KEY, put(b"k", effects=("late",)), timeout=20))
    await until(lambda: isinstance(process.log.calls[-1], Append) and len(process.log.calls) > 2)
    process.on_image(given(2, epoch=2))
    process.log.commit()
    with pytest.raises(OttlaError):
        await writing
    await process.until_serving(1)
    await process.shards.ask(KEY, put(b"k", effects=("two",)), timeout=20)
    process.log.carry_out(2, ShardFence(3, 9), Append(4, seal_fence(ShardFence(3, 9), NOON)))
    with pytest.raises(OttlaError):
        await process.put(b"x")
    process.on_image(given(2, owner=8))
    process.on_image(given(0, epoch=4))
    await process.until_serving(1)
    await process.shards.kill()
    assert events == [(1, "left"), (2, "two"), (2, "left"), (4, "left")]


async def test_timers_go_off_by_themselves(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    await process.shards.ask(KEY, set_timers({"expiry": 0.01}), timeout=20)
    await until(lambda: process.books[-1].values.get(b"timer") == b"expiry")


@pytest.mark.story("refusal-is-logged-as-a-bug")
async def test_a_refusal_that_nobody_waits_for_any_more_is_no_bug(process: Process) -> None:
    """When a call of batched heartbeats ended too early, each of them used to be logged as a bug."""
    bugs: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: bugs.append(context["message"]))
    not_owned = process.shards.begin(2, put(b"k", b"v"), timeout=20)
    process.on_image(given(2))
    loading = process.shards.begin(2, put(b"k", b"v"), timeout=20)
    assert not_owned.done()
    assert loading.done()
    del not_owned, loading
    gc.collect()
    assert bugs == []


@pytest.mark.story("left-shard-is-kept-by-its-timer")
async def test_what_was_left_is_kept_by_no_timer() -> None:
    """A shard's next look may be minutes away, and its state is all that its groups have committed."""
    process = Process(MemoryShardLog(), replace(LIMITS, append_s=600.0))
    await process.shards.start()
    process.on_image(given(2))
    await process.until_serving(1)
    await process.put(b"1")
    state = weakref.ref(process.books.pop())
    process.on_image(given(2, owner=8))

    def is_gone() -> bool:
        gc.collect()
        return state() is None

    await until(is_gone)
    await process.shards.kill()


async def test_a_process_that_has_slept_evicts_nobody_for_it(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    awake = loop.time
    process.on_image(given(2))
    await process.until_serving(1)
    await process.shards.ask(KEY, set_timers({"session": 30.0}), timeout=20)
    await process.shards.ask(KEY, get(b"k"), timeout=20, without_confirmation=True)
    checks = sum(isinstance(call, Check) for call in process.log.calls)
    monkeypatch.setattr(loop, "time", lambda: awake() + 60)  # as after a SIGSTOP, with heartbeats in the sockets
    await process.shards.ask(KEY, set_timers({"session": None}), timeout=20, without_confirmation=True)
    assert b"timer" not in process.books[-1].values
    # It has asked who owns the shard, before it answered from memory.
    assert sum(isinstance(call, Check) for call in process.log.calls) == checks + 1


async def test_a_bug_in_the_state_ends_that_life_only(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.on_image(given(0, 2))
    await process.until_serving(2)

    def broken(record: object) -> None:
        raise ZeroDivisionError

    process.books[1].apply = broken
    with caplog.at_level(logging.CRITICAL, "ottla_core"), pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    await until(lambda: process.released == [(2, 1)])
    assert process.shards.owned() == [0]


async def test_a_bug_that_a_recall_meets_ends_that_life_only(process: Process) -> None:
    process.on_image(given(0, 2))
    await process.until_serving(2)
    await process.put(b"1")

    def broken(record: object) -> None:
        raise ZeroDivisionError

    held = process.shards._held[2]
    process.books[1].apply = broken
    held.owner._timers.set("due", held.owner._began_at)
    # The proof is in the second half of its life, so it is renewed by a round, in which the timer is decided.
    held.owner.limits = replace(LIMITS, unproved_s=100.0)
    assert process.shards.recall(KEY, lambda book, now: Recalled("quiet", {})) is not None
    await until(lambda: process.released == [(2, 1)])
    assert process.shards.owned() == [0]


async def test_a_bug_in_an_effect_or_a_decision_ends_nothing(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    process.on_image(given(2))
    await process.until_serving(1)

    def broken(book: object, now: object) -> ShardDecision[None]:
        raise ZeroDivisionError

    def perform(shard: int, epoch: int, effect: object) -> None:
        raise ZeroDivisionError

    def when_left(shard: int, epoch: int) -> None:
        raise ZeroDivisionError

    process.shards.perform, process.shards._when_left = perform, when_left
    with pytest.raises(ZeroDivisionError):
        await process.shards.ask(KEY, broken, timeout=20)
    assert "a request to group shard 2 failed" in caplog.text
    await process.shards.ask(KEY, put(b"k", effects=("news",)), timeout=20)
    assert await process.put(b"1") == b"v"
    process.on_image(given(2, epoch=2))
    await process.until_serving(1)


async def test_a_stop_finishes_what_is_under_way_and_refuses_the_rest(process: Process) -> None:
    process.on_image(given(2))
    await process.until_serving(1)
    joining = asyncio.create_task(process.shards.ask(KEY, later("m1"), timeout=20))
    await until(lambda: process.gauge("ottla_shard_requests_parked") == 1)
    process.log.hold()
    writing = asyncio.create_task(process.put(b"1"))
    await until(lambda: isinstance(process.log.calls[-1], Append))
    stopping = asyncio.create_task(process.shards.stop())
    await until(lambda: process.shards._stopping)
    with pytest.raises(OttlaError) as raised:
        await process.put(b"2")
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    process.log.commit()
    await stopping
    assert await writing is None
    with pytest.raises(OttlaError) as raised:
        await joining
    assert code(raised) == ErrorCode.NOT_COORDINATOR
    process.on_image(given(2, epoch=2))
    assert (process.shards.owned(), process.released) == ([], [])


async def test_a_load_is_measured(process: Process) -> None:
    process.on_image(given(0, 1, 2, 3))
    await process.until_serving(4)
    load_seconds: Any = process.shards.load_seconds
    assert sum(load_seconds.counts) == 4


# ---- starved --------------------------------------------------------------------------------------------------------


class SlowLog(MemoryShardLog):
    """Calls wait until they are let through; shards in `refused` have no leader."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.refused: set[int] = set()

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        if shard in self.refused:
            return Rejected(OttlaError(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads it"))
        self.waiting[shard] = asyncio.get_running_loop().create_future()
        await self.waiting[shard]
        del self.waiting[shard]
        return await super().call(shard, owner, call, timeout_s=timeout_s)

    def let_through(self) -> None:
        for each in self.waiting.values():
            if not each.done():
                each.set_result(None)


FIFTY = replace(OFFSETS, partition_count=50)


def given_fifty() -> ClusterImage:
    return replace(given(*range(50)), topics={FIFTY.name: FIFTY})


@pytest.fixture
async def slow() -> AsyncIterator[Process]:
    process = Process(SlowLog())
    await process.shards.start()
    yield process
    await process.shards.kill()


@pytest.mark.story("all-shards-load-at-once")
async def test_few_shards_are_loaded_at_a_time_and_those_first_that_are_asked_for(slow: Process) -> None:
    log: Any = slow.log
    slow.on_image(given_fifty())
    await until(lambda: len(log.waiting) == LIMITS.loads_at_once)
    assert slow.shards.owned() == list(range(50))
    with pytest.raises(OttlaError) as raised:
        await slow.shards.ask_shard(49, get(b"k"), timeout=20)
    assert code(raised) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    most = 0
    seen: list[Any] = []

    async def load_on() -> bool:
        nonlocal most
        most = max(most, len(log.waiting))
        seen.extend(n for n in log.waiting if n not in seen)
        log.let_through()
        await asyncio.sleep(0)
        return slow.gauge("ottla_shards_serving") == 50

    while not await load_on():
        pass
    assert most == LIMITS.loads_at_once
    assert seen.index(49) == LIMITS.loads_at_once, "the next one after those that had begun"
    assert slow.shards.loads.value == 50


@pytest.mark.story("stuck-load-keeps-others-waiting")
async def test_a_shard_whose_log_has_trouble_keeps_no_other_from_being_loaded(slow: Process) -> None:
    log: Any = slow.log
    log.refused = set(range(10))
    slow.on_image(given_fifty())

    def load_on() -> bool:
        log.let_through()
        return slow.gauge("ottla_shards_serving") == 40

    await until(load_on)
    log.refused = set()

    def end() -> bool:
        log.let_through()
        return slow.gauge("ottla_shards_serving") == 50

    await until(end)
    assert (slow.shards.loads.value, slow.shards.released.value) == (50, 0)


async def test_a_load_goes_on_over_every_gap(slow: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that gets no processor for seconds, again and again, loads once all the same."""
    log: Any = slow.log
    loop = asyncio.get_running_loop()
    awake, slept = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: awake() + slept)
    slow.on_image(given(0, 1, 2, 3))

    def load_on() -> bool:
        nonlocal slept
        slept += 1.5
        log.let_through()
        return slow.gauge("ottla_shards_serving") == 4

    await until(load_on)
    assert (len(slow.books), slow.shards.loads.value, slow.shards.left.value) == (4, 4, 0)
    assert len(log.calls) == 8, "a fence and a read for each, once"


async def test_a_shard_whose_log_is_late_is_kept_and_not_loaded_again(process: Process) -> None:
    process.shards.limits = replace(LIMITS, append_s=0.05)
    process.on_image(given(2))
    await process.until_serving(1)
    process.log.hold()
    with pytest.raises(OttlaError) as raised:
        await process.put(b"1")
    assert code(raised) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert process.released == []
    process.log.commit()
    await until(lambda: process.gauge("ottla_shard_requests_parked") == 0)
    assert await process.put(b"2") == b"1", "it is in the log, and nobody had been told that it failed"
    assert (len(process.books), process.shards.released.value) == (1, 0)


async def test_a_new_leader_is_asked_at_once(process: Process) -> None:
    limits = replace(LIMITS, retry_s=60.0, retry_most_s=60.0)
    process.shards.limits = limits
    image = given(2)

    def led(epoch: int) -> ClusterImage:
        return replace(image, partitions={PartitionId(OFFSETS.id, 2): Partition((0, 1), 0, epoch)})

    process.on_image(led(1))
    await process.until_serving(1)
    process.log.script[:] = [Unknown(OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leads"))]
    writing = asyncio.create_task(process.put(b"1"))
    await until(lambda: not process.log.script)
    process.on_image(led(1))
    await asyncio.sleep(0.01)
    assert not writing.done()
    process.on_image(led(2))
    assert await writing is None


@pytest.mark.story("waiting-requests-without-a-bound")
async def test_what_waits_is_bounded_in_bytes(process: Process) -> None:
    process.shards.limits = replace(LIMITS, max_waiting_bytes=100)
    process.on_image(given(0, 2))
    await process.until_serving(2)
    process.log.hold()
    one = process.shards.begin(0, put(b"k"), timeout=20, size_bytes=60)
    with pytest.raises(OttlaError) as raised:
        await process.shards.ask_shard(2, put(b"k"), timeout=20, size_bytes=60)
    assert code(raised) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    process.log.commit()
    await one
    assert await process.shards.ask_shard(2, put(b"k"), timeout=20, size_bytes=60) is None


@pytest.mark.parametrize(("wanted_ns", "cause"), [(2_900_000_000, "starved"), (1_000_000, "stopped")])
async def test_a_gap_says_whether_the_process_was_starved_or_stopped(
    process: Process,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    wanted_ns: int,
    cause: str,
) -> None:
    schedstat = tmp_path / "schedstat"
    schedstat.write_text("0 0 1\n")
    loop = asyncio.get_running_loop()
    awake = loop.time
    process.shards._processor = ProcessorTime(awake(), schedstat)
    schedstat.write_text(f"1000 {wanted_ns} 2\n")
    monkeypatch.setattr(loop, "time", lambda: awake() + 3.0)
    process.shards.now()
    told: Any = process.metrics.samples["ottla_loop_gaps_total"]
    assert {dict(labels)["cause"]: each.value for labels, each in told.items()} == {
        "starved": 0,
        "stopped": 0,
        cause: 1,
    }
    assert ("too little CPU time" in caplog.text) == (cause == "starved")


def test_where_the_system_does_not_tell_a_gap_is_a_stop(tmp_path: Path) -> None:
    assert ProcessorTime(10.0, tmp_path / "missing").look(13.0) == (3.0, 0.0)


class DamagedLog(MemoryShardLog):
    """The last byte of what is read is wrong while it is `damaged`."""

    damaged = True

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        result = await super().call(shard, owner, call, timeout_s=timeout_s)
        if self.damaged and isinstance(result, Batches):
            return replace(result, data=result.data[:-1] + bytes([result.data[-1] ^ 1]))
        return result


@pytest.mark.story("damaged-batch-of-a-shard")
async def test_a_shard_that_can_not_be_loaded_is_in_the_log_and_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    log = DamagedLog()
    process = Process(log, replace(LIMITS, retry_most_s=0.01))
    await process.shards.start()
    process.on_image(given(0, 2))
    await until(lambda: len([r for r in caplog.records if "not been served" in r.message]) >= 2)
    telling = next(r for r in caplog.records if "not been served" in r.message)
    assert telling.levelno == logging.ERROR
    assert "its log can't be read from offset 0 on, tried 8 times" in telling.message
    assert process.gauge("ottla_shard_loading_seconds") > 0
    assert [each.trouble != "" for each in process.shards.statuses()] == [True, True]
    log.damaged = False
    await process.until_serving(2)
    assert process.gauge("ottla_shard_loading_seconds") == 0
    assert [(each.shard, each.is_served, each.trouble) for each in process.shards.statuses()] == [
        (0, True, ""),
        (2, True, ""),
    ]
    await process.shards.kill()
