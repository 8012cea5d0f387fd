"""Which segments retention takes, and above all which it leaves."""

from __future__ import annotations

from functools import partial

import pytest

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.retention import DeletionCause, SegmentFacts, decide

HOUR = 3_600_000


def segments(*, hours: list[int], size: int = 100) -> list[SegmentFacts]:
    """Ten offsets each; the newest record of each at that hour."""
    return [SegmentFacts((n + 1) * 10, size, partial(int, hour * HOUR)) for n, hour in enumerate(hours)]


def decided(
    facts: list[SegmentFacts],
    *,
    now: int = 100,
    keep_hours: int = -1,
    keep_bytes: int = -1,
    log_start: int = 0,
    high_watermark: int = 1000,
) -> list[DeletionCause]:
    return decide(
        facts,
        log_start_offset=log_start,
        high_watermark=HighWatermark(high_watermark),
        now_ms=now * HOUR,
        retention_ms=keep_hours * HOUR if keep_hours >= 0 else -1,
        retention_bytes=keep_bytes,
    )


@pytest.mark.feature(86, 87)
@pytest.mark.rule(63)
def test_time_takes_segments_whose_newest_record_is_too_old() -> None:
    facts = segments(hours=[10, 20, 90, 99])
    assert decided(facts, keep_hours=24) == [DeletionCause.TIME, DeletionCause.TIME]
    assert decided(facts, keep_hours=80) == [DeletionCause.TIME]  # exactly 80 hours old is not older
    assert decided(facts, keep_hours=-1) == []


@pytest.mark.rule(63)
def test_a_record_from_the_future_pins_its_segment_and_those_after_it() -> None:
    assert decided(segments(hours=[10, 5000, 20, 99]), keep_hours=24) == [DeletionCause.TIME]


@pytest.mark.feature(86)
def test_size_takes_the_oldest_as_long_as_enough_is_left() -> None:
    facts = segments(hours=[1, 2, 3, 4], size=100)
    assert decided(facts, keep_bytes=200) == [DeletionCause.SIZE, DeletionCause.SIZE]
    assert decided(facts, keep_bytes=201) == [DeletionCause.SIZE]
    assert decided(facts, keep_bytes=400) == []


@pytest.mark.rule(63)
def test_nothing_goes_at_or_above_the_high_watermark() -> None:
    facts = segments(hours=[1, 2, 3, 4])
    assert decided(facts, keep_hours=1, high_watermark=19) == [DeletionCause.TIME]
    assert decided(facts, keep_hours=1, high_watermark=9) == []
    assert decided(facts, keep_bytes=0, high_watermark=20) == [DeletionCause.SIZE, DeletionCause.SIZE]


def test_a_quiet_topic_empties_too() -> None:
    facts = segments(hours=[1, 2])
    assert decided(facts, keep_hours=1) == [DeletionCause.TIME, DeletionCause.TIME], (
        "all are to go, so the log has to roll first"
    )
    assert decided([*facts, SegmentFacts(20, 0, int)], keep_hours=1) == [DeletionCause.TIME, DeletionCause.TIME]
    assert decided([SegmentFacts(0, 0, int)], keep_hours=1) == []


def test_segments_below_the_log_start_go_without_a_limit() -> None:
    facts = segments(hours=[99, 99, 99])
    assert decided(facts, log_start=20) == [DeletionCause.LOG_START, DeletionCause.LOG_START]
    assert decided(facts, log_start=19) == [DeletionCause.LOG_START]
    assert decided(facts, log_start=30) == [DeletionCause.LOG_START, DeletionCause.LOG_START], (
        "the active segment is written to"
    )
