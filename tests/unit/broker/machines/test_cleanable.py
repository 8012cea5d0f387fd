"""Which part of a log may be compacted, and when that is worth it (rule 62)."""

from __future__ import annotations

import pytest

from ottla_broker.machines.cleanable import Cleanable, CompactionLag, SegmentFacts, cleanable
from ottla_broker.machines.offsets import LastStableOffset, RecoveryPoint
from ottla_broker.storage.log_config import MAX_INT64

pytestmark = pytest.mark.rule(62)

NO_LAG = CompactionLag(0, MAX_INT64)
NOW = 1_000_000


FLUSHED = RecoveryPoint(1000)


def segments(*sizes: int) -> list[SegmentFacts]:
    """Ten offsets each, from 100 on, a second each: of 100 the records are from 100 to 100.9 s."""
    return [
        SegmentFacts(at, at + 10, size, lambda at=at: at * 1000, lambda at=at: (at + 10) * 1000 - 100)
        for at, size in zip(range(100, 1000, 10), sizes, strict=False)
    ]


def look(
    first_dirty: int,
    last_stable: int = 1000,
    lag: CompactionLag = NO_LAG,
    now_ms: int = NOW,
    *,
    recovery_point: RecoveryPoint = FLUSHED,
) -> Cleanable:
    return cleanable(segments(500, 300, 200), first_dirty, LastStableOffset(last_stable), recovery_point, lag, now_ms)


@pytest.mark.feature(98)
def test_all_before_the_active_segment_is_dirty_at_first() -> None:
    part = look(0)
    assert part == Cleanable(100, 130, 3, clean_bytes=0, dirty_bytes=1000, is_overdue=False)
    assert part.dirty_ratio == 1.0
    assert part.is_due(0.99)


@pytest.mark.feature(97)
def test_what_was_cleaned_before_counts_against_it() -> None:
    part = look(110)
    assert (part.clean_bytes, part.dirty_bytes, part.dirty_ratio) == (500, 500, 0.5)
    assert part.is_due(0.49)
    assert not part.is_due(0.5)


def test_a_segment_that_was_cleaned_in_part_is_dirty() -> None:
    part = look(115)
    assert (part.first_dirty_offset, part.clean_bytes, part.dirty_bytes) == (115, 500, 500)


def test_a_log_that_is_clean_is_never_due() -> None:
    part = look(130)
    assert part == Cleanable(130, 130, 0, clean_bytes=1000, dirty_bytes=0, is_overdue=False)
    assert not part.is_due(0.0)


@pytest.mark.parametrize("first_dirty", [0, 99, 131, 500])
def test_an_offset_that_is_not_in_the_log_is_where_it_begins(first_dirty: int) -> None:
    """Retention took what was there, or another log was in this directory."""
    assert look(first_dirty).first_dirty_offset == 100


@pytest.mark.parametrize(
    ("last_stable", "end", "count"), [(130, 130, 3), (129, 129, 3), (120, 120, 2), (111, 111, 2), (110, 110, 1)]
)
def test_nothing_at_or_above_the_last_stable_offset(last_stable: int, end: int, count: int) -> None:
    """Below the first open transaction, whose records may yet be aborted: until there are transactions, that is the
    high watermark."""
    part = look(0, last_stable)
    assert (part.end_offset, part.segments) == (end, count)


@pytest.mark.parametrize("last_stable", [0, 100])
def test_a_log_with_nothing_stable_is_not_due(last_stable: int) -> None:
    part = look(0, last_stable)
    assert (part.first_dirty_offset, part.end_offset, part.segments) == (100, 100, 0)
    assert not part.is_due(0.0)


@pytest.mark.parametrize("last_stable", [110, 115])
def test_what_is_clean_up_to_the_last_stable_offset_is_not_due(last_stable: int) -> None:
    """Though the rest of its segment is dirty: there is nothing to do before more of it is stable."""
    part = look(last_stable, last_stable)
    assert (part.dirty_bytes, part.end_offset) == (0, last_stable)
    assert not part.is_due(0.0)


def test_what_is_younger_than_the_least_lag_waits() -> None:
    """And all after it, however old its timestamps are."""
    part = look(0, lag=CompactionLag(10_000, MAX_INT64), now_ms=129_900)
    assert (part.end_offset, part.dirty_bytes) == (120, 800)
    assert look(0, lag=CompactionLag(10_000, MAX_INT64), now_ms=129_899).end_offset == 110
    assert look(0, lag=CompactionLag(10_000, MAX_INT64), now_ms=139_900).end_offset == 130


def test_what_waits_for_longer_than_the_most_lag_makes_the_log_due() -> None:
    lag = CompactionLag(0, 5_000)
    assert not look(110, lag=lag, now_ms=115_000).is_overdue
    overdue = look(110, lag=lag, now_ms=115_001)
    assert overdue.is_overdue
    assert overdue.is_due(1.0)
    assert not look(130, lag=lag, now_ms=NOW).is_overdue
    without_time = SegmentFacts(0, 10, 100, lambda: -1, lambda: -1)
    assert not cleanable([without_time], 0, LastStableOffset(10), FLUSHED, lag, NOW).is_overdue


@pytest.mark.parametrize(("recovery_point", "end"), [(99, 100), (109, 100), (110, 110), (129, 120), (130, 130)])
def test_no_segment_that_ends_above_the_recovery_point_is_cleaned(recovery_point: int, end: int) -> None:
    part = look(100, recovery_point=RecoveryPoint(recovery_point))
    assert (part.end_offset, part.segments) == (end, (end - 100) // 10)


def test_a_log_of_an_active_segment_alone_has_nothing() -> None:
    part = cleanable([], 7, LastStableOffset(1000), FLUSHED, NO_LAG, NOW)
    assert (part.segments, part.dirty_bytes, part.dirty_ratio) == (0, 0, 0.0)
    assert not part.is_due(0.0)


def test_times_are_looked_up_only_where_they_matter() -> None:
    def fail() -> int:
        raise AssertionError("read from the disk for nothing")

    facts = [SegmentFacts(0, 10, 100, fail, fail)]
    assert cleanable(facts, 0, LastStableOffset(10), FLUSHED, NO_LAG, NOW).end_offset == 10
