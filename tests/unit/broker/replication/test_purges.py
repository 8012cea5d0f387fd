"""A replica that has missed tombstones or markers which its leader has removed begins anew, and keeps nothing of what
they were about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON
from compacted_brokers import ALL, COMPACTED, catch_up, compact, put, values_of
from produced import produced
from replicas import Brokers
from transactional_logs import end_of

from ottla_core.errors import ErrorCode
from ottla_core.records.batch import TRANSACTIONAL

AWAY = replace(ALL, isr=(1, 2), partition_epoch=2)
LATER = NOON + 1000
FILLER = [b"x" * 40] * 20


async def with_all(tmp_path: Path) -> Brokers:
    brokers = Brokers(tmp_path, config=COMPACTED)
    brokers.apply(ALL)
    put(brokers, 1, b"stays", b"v")
    put(brokers, 1, b"k", b"deleted soon")
    for follower in (2, 3):
        await catch_up(brokers, follower, 1)
    return brokers


def leave(brokers: Brokers) -> None:
    """Broker 3 goes away, and leaves the ISR."""
    del brokers.live[3]
    brokers.apply(AWAY, 1, 2)


async def delete(brokers: Brokers) -> None:
    put(brokers, 1, b"k", None)
    put(brokers, 1, b"hot", *FILLER)
    await catch_up(brokers, 2, 1)


@pytest.mark.story("deleted-key-came-back")
async def test_a_replica_that_was_away_for_too_long_keeps_no_deleted_key(tmp_path: Path) -> None:
    brokers = await with_all(tmp_path)
    leave(brokers)
    await delete(brokers)
    compact(brokers, 1)
    compact(brokers, 1, at_ms=LATER)
    assert values_of(brokers, 1, b"k") == []
    brokers.live[3] = 23
    answer = await brokers.fetch(3, 1)
    assert answer.error is not None
    assert answer.error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    await catch_up(brokers, 3, 1)
    assert values_of(brokers, 3, b"k") == []
    # A replica that is filled by broker 3 learns from it what is gone.
    purged = brokers.replicas[1].log.compaction.purged_before
    assert brokers.replicas[3].log.compaction.purged_before == purged > 0
    assert brokers.open(3).log.compaction.purged_before == purged, "it is on disk"


async def test_a_tombstone_that_is_there_brings_no_replica_to_begin_anew(tmp_path: Path) -> None:
    brokers = await with_all(tmp_path)
    leave(brokers)
    await delete(brokers)
    compact(brokers, 1)
    brokers.live[3] = 23
    assert (await brokers.fetch(3, 1)).error is None
    await catch_up(brokers, 3, 1)
    assert values_of(brokers, 3, b"k")[-1] is None


@pytest.mark.story("tombstones-went-before-a-slow-copy-came-to-them")
async def test_a_leader_keeps_tombstones_for_a_live_replica_that_has_not_come_to_them(tmp_path: Path) -> None:
    brokers = await with_all(tmp_path)
    brokers.apply(AWAY)
    await delete(brokers)
    brokers.clock.advance(31.0)
    await catch_up(brokers, 2, 1)
    for at_ms in (NOON, LATER):
        compact(brokers, 1, at_ms=at_ms)
    assert values_of(brokers, 1, b"k") == [None]
    await catch_up(brokers, 3, 1)
    compact(brokers, 1, at_ms=LATER)
    assert values_of(brokers, 1, b"k") == []
    assert (await brokers.fetch(3, 1)).error is None


async def test_a_copy_goes_on_as_long_as_nothing_is_removed_behind_it(tmp_path: Path) -> None:
    brokers = await with_all(tmp_path)
    leave(brokers)
    await delete(brokers)
    put(brokers, 1, b"other", None)
    put(brokers, 1, b"late", b"value")
    await delete(brokers)
    for at_ms in (NOON, LATER):
        compact(brokers, 1, at_ms=at_ms)
    brokers.live[3] = 23
    brokers.replicas[3].log.truncate_fully_and_start_at(0)
    put(brokers, 1, b"late", None)
    put(brokers, 1, b"hot", *FILLER)
    await catch_up(brokers, 2, 1)
    await brokers.fetch(3, 1, max_bytes=1)
    assert brokers.replicas[3].log.log_end_offset == 1 < brokers.replicas[1].log.compaction.purged_before
    assert (await brokers.fetch(3, 1, max_bytes=1)).error is None

    # It dies for a moment, and the leader removes a tombstone that it has not met.
    del brokers.live[3]
    for at_ms in (NOON, LATER):
        compact(brokers, 1, at_ms=at_ms)
    brokers.live[3] = 33
    assert (await brokers.fetch(3, 1)).error is not None
    await catch_up(brokers, 3, 1)
    assert values_of(brokers, 3, b"late") == []


@pytest.mark.story("marker-gone-at-the-next-leader")
async def test_a_replica_whose_next_leader_has_no_marker_any_more_keeps_no_transaction_open(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, config=replace(COMPACTED, producer_expiration_ms=1))
    brokers.apply(ALL)
    brokers.leading(1).append(produced(0, attributes=TRANSACTIONAL), transactional=True)
    for follower in (2, 3):
        await catch_up(brokers, follower, 1)
    leave(brokers)
    brokers.leading(1).append_marker(end_of(7, 1, committed=False))
    put(brokers, 1, b"hot", *FILLER)
    await catch_up(brokers, 2, 1)
    brokers.replicas[2].log.producers.expire(NOON * 2, 1)
    for at_ms in (NOON, NOON, LATER):
        compact(brokers, 2, at_ms=at_ms)
    assert brokers.replicas[2].log.compaction.purged_before == 2

    # Broker 2 leads, and broker 3 continues there.
    brokers.live[3] = 23
    brokers.apply(replace(AWAY, leader=2, leader_epoch=2, partition_epoch=3))
    await catch_up(brokers, 3, 2)
    await brokers.fetch(1, 2)
    await catch_up(brokers, 3, 2)
    offsets = brokers.replicas[3].offsets
    assert int(offsets.last_stable_offset) == offsets.high_watermark > 2
    assert values_of(brokers, 3, b"key") == []
