"""Replicas that are cleaned as they like, also while they are compared, differ only where somebody made them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from batches import NOON
from cleaned_replicas import CleanedReplica, compare
from cleanings import header_of, pairs, placed, rows_of
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.records.fence import ShardFence, seal_fence

pytestmark = pytest.mark.feature(115)

KEYS = st.sampled_from([b"%d" % n for n in range(4)])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([None, b"x", b"y"])), max_size=4)  # none: a fence
LOGS = st.lists(ROWS, min_size=1, max_size=14)
CLEANINGS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=4)  # (at which fetch, up to)


def log_of(rows: list[list[tuple[bytes, bytes | None]]]) -> list[bytes]:
    batches: list[bytes] = []
    offset = 0
    for number, batch in enumerate(rows):
        sealed = pairs(offset, *batch) if batch else placed(seal_fence(ShardFence(number, 1), NOON), offset)
        batches.append(sealed)
        offset = header_of(sealed).next_offset
    return batches


@given(LOGS, st.lists(CLEANINGS, min_size=2, max_size=3), st.integers(1, 4), st.data())
def test_whenever_each_is_cleaned_they_do_not_differ(
    rows: list[list[tuple[bytes, bytes | None]]],
    cleanings: list[list[tuple[int, int]]],
    per_fetch: int,
    data: st.DataObject,
) -> None:
    batches = log_of(rows)
    ends = [header_of(batch).next_offset for batch in batches]
    replicas = []
    for schedule in cleanings:
        replicas.append(CleanedReplica(batches, per_fetch=per_fetch))
        replicas[-1].before_fetch = partial(clean_as_scheduled, replicas[-1], schedule, count())
    found = compare(*replicas, end=data.draw(st.sampled_from(ends)))
    assert found.differences == {}
    assert found.given_up == {}
    assert found.equal == tuple(range(len(replicas)))


@given(LOGS, st.lists(st.integers(0, 60), min_size=2, max_size=2), st.integers(1, 4), st.data())
def test_a_newest_value_that_is_lost_is_found_where_it_was(
    rows: list[list[tuple[bytes, bytes | None]]], ends: list[int], per_fetch: int, data: st.DataObject
) -> None:
    batches = log_of(rows)
    newest = {key: (offset, value) for offset, key, value in rows_of(*batches)}
    alive = sorted(offset for offset, value in newest.values() if value is not None)
    if not alive:
        return
    lost = data.draw(st.sampled_from(alive))
    sound, bad = (CleanedReplica(batches, per_fetch=per_fetch) for _ in ends)
    for replica, end in zip((sound, bad), ends, strict=True):
        replica.clean(end, retention_ms=1)
    bad.batches = [left for batch in bad.batches if (left := without(batch, lost))]
    found = compare(sound, bad)
    assert [(broker, d.what, d.offset) for broker, d in found.differences.items()] == [(1, "missing record", lost)]


def clean_as_scheduled(
    replica: CleanedReplica, schedule: list[tuple[int, int]], fetches: Iterator[int], offset: int
) -> None:
    number = next(fetches)
    for at, end in schedule:
        if at == number:
            replica.clean(end, now_ms=NOON + number)


def without(batch: bytes, lost: int) -> bytes:
    """The batch less a record, as a cleaning that was wrong about its key would leave it."""
    header = header_of(batch)
    if header.is_control or not header.base_offset <= lost < header.next_offset:
        return batch
    victim = CleanedReplica([batch])
    (key,) = {key for offset, key, _ in rows_of(batch) if offset == lost}
    later = pairs(header.next_offset, (key, b"later"))
    victim.batches.append(later)
    victim.high_watermark += 1
    victim.clean(victim.high_watermark)
    left = [b for b in victim.batches if b is not later]
    return left[0] if left else b""
