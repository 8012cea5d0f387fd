"""What a mirror writes to Redis, step by step: in bounded transactions, and never over what is newer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis_server import RedisServer

import ottla
from ottla.mirror.redis_offsets import RedisKeys, RedisOffsets
from ottla_core.model import TopicPartition
from ottla_mirror.groups import redis_map
from ottla_mirror.groups.redis_map import RedisMap
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.offset_map import OffsetMaps, Stretch, SyncedStretch

FLOW = "east->west"
KEYS = RedisKeys(FLOW)
SOURCE, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)


class KnownGroups:
    """Stands for the checkpoints."""

    def __init__(self) -> None:
        self.known, self.changed = dict[str, Checkpoint](), set[str]()

    def take_changed(self) -> Checkpoint | None:
        return self.known[self.changed.pop()] if self.changed else None

    def change_all(self) -> None:
        self.changed.update(self.known)

    def catch_up(self, timeout: float) -> None:
        """It has."""


class Known:
    """What a mirror knows: offset syncs and checkpoints. `meanwhile` happens while it catches up."""

    def __init__(self, url: str) -> None:
        self.maps, self.groups = OffsetMaps(), KnownGroups()
        self.meanwhile: Callable[[], object] = bool
        self.take_changed = self.maps.take_changed
        self.change_all = self.maps.change_all
        names: Any = SimpleNamespace(target_of=lambda topic: f"east.{topic}")
        syncs, groups, state = cast(Any, self), cast(Any, self.groups), cast(Any, None)
        self.run = RedisMap(url, FlowSettings("east", "west"), names, syncs, groups, state)

    def catch_up(self, timeout: float) -> None:
        self.meanwhile()

    def sync(self, source: int, target: int, length: int, at: TopicPartition = SOURCE) -> None:
        self.maps.add(SyncedStretch(at, b"id", Stretch(source, target, length)))

    def commit(self, group: str, offset: int) -> None:
        self.groups.known[group] = Checkpoint(group, COPY, offset, offset)
        self.groups.changed.add(group)

    def close(self) -> None:
        """As a chore does that was stopped."""
        self.run.stopping.set()
        self.run.work()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as running:
        yield running


@pytest.fixture
def new_known(redis: RedisServer) -> Iterator[Callable[[], Known]]:
    made: list[Known] = []

    def new() -> Known:
        made.append(Known(redis.url))
        return made[-1]

    yield new
    for known in made:
        known.close()


@pytest.fixture
def offsets(redis: RedisServer) -> Iterator[RedisOffsets]:
    found = RedisOffsets(redis.url, 5.0)
    yield found
    found.close()


def test_what_changes_is_all_that_is_written(
    redis: RedisServer, new_known: Callable[[], Known], offsets: RedisOffsets
) -> None:
    known = new_known()
    for number in range(1000):
        known.sync(number * 10, number * 9, 9)
    known.commit("g", 40)
    run = known.run
    assert not run.step()
    assert offsets.translate(FLOW, {SOURCE: 5005}) == {COPY: 4505}
    assert offsets.positions(FLOW, "g") == {COPY: 40}
    before = redis.client.info("stats")["total_net_input_bytes"]
    known.sync(9999, 8999, 5)
    known.commit("g", 41)
    assert not run.step()
    assert redis.client.info("stats")["total_net_input_bytes"] - before < 2_000
    assert offsets.translate(FLOW, {SOURCE: 10_004}) == {COPY: 9004}
    assert offsets.positions(FLOW, "g") == {COPY: 41}


def test_what_is_more_than_a_transaction_takes_is_current_with_the_last_one(
    new_known: Callable[[], Known], offsets: RedisOffsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_map, "_MOST", 10)
    known = new_known()
    partitions = [TopicPartition("orders", number) for number in range(30)]
    for partition in partitions:
        known.sync(0, 0, 5, partition)
    for number in range(30):
        known.commit(f"g{number}", number)
    run, steps = known.run, 1
    while run.step():
        assert offsets.translate(FLOW, {partitions[0]: 1}) is None
        steps += 1
    assert steps == 10, "5 partitions in each, then 10 groups, and a last look"
    assert all(offsets.translate(FLOW, {partition: 1}) for partition in partitions)
    assert all(offsets.positions(FLOW, f"g{number}") == {COPY: number} for number in range(30))


def test_a_late_mirror_never_puts_back_what_a_newer_one_has_written(
    redis: RedisServer, new_known: Callable[[], Known], offsets: RedisOffsets
) -> None:
    late, newer = new_known(), new_known()
    late.sync(0, 0, 10)
    newer.sync(0, 0, 20)
    first = late.run
    first.step()
    late.sync(10, 10, 5)
    second = newer.run
    late.meanwhile = second.step  # it was stopped for a while, in the midst of a step
    with pytest.raises(ottla.ConnectError, match="Watched"):
        first.step()
    assert redis.client.zrange(KEYS.offsets(*SOURCE), 0, -1) == ["0 0 20"]
    late.meanwhile = lambda: late.sync(15, 15, 10)  # what it catches up with is written in the same step
    first.step()
    assert offsets.translate(FLOW, {SOURCE: 100}) == {COPY: 25}


def test_an_older_state_is_told_from_what_was_written_last_without_a_connection_lost(
    redis: RedisServer, new_known: Callable[[], Known], offsets: RedisOffsets
) -> None:
    known = new_known()
    known.sync(0, 0, 10)
    run = known.run
    run.step()
    writer = redis.client.get(KEYS.writer)
    known.sync(10, 50, 10)
    run.step()
    redis.client.zrem(KEYS.offsets(*SOURCE), "10 50 10")  # as in a dump that was made between the two
    redis.client.set(KEYS.writer, writer)
    run.step()
    assert offsets.translate(FLOW, {SOURCE: 15}) == {COPY: 55}


def test_a_redis_that_was_emptied_gets_all_of_it_again(
    redis: RedisServer, new_known: Callable[[], Known], offsets: RedisOffsets
) -> None:
    known = new_known()
    known.sync(0, 0, 10)
    known.commit("g", 5)
    run = known.run
    run.step()
    redis.client.flushall()
    run.step()
    assert offsets.translate(FLOW, {SOURCE: 5}) == {COPY: 5}
    assert offsets.positions(FLOW, "g") == {COPY: 5}


def test_keys_of_what_is_no_longer_copied_go_with_the_next_run(
    redis: RedisServer, new_known: Callable[[], Known], offsets: RedisOffsets
) -> None:
    redis.client.zadd(KEYS.offsets("gone", 3), {"0 0 1": 0})
    redis.client.hset(KEYS.group("gone"), "east.orders:0", 5)
    redis.client.set("ottla:mirror:north->west:writer", "another flow's")
    known = new_known()
    known.sync(0, 0, 10)
    known.run.step()
    expected = {KEYS.current, KEYS.writer, KEYS.copies, KEYS.offsets(*SOURCE), "ottla:mirror:north->west:writer"}
    assert set(redis.client.keys("*")) == expected
