"""Replicas that are the same are found so however they are read, and one byte that is not is found where it is."""

from __future__ import annotations

import pytest
from batches import sealed, simple_records
from cleaned_replicas import compared
from hypothesis import given
from hypothesis import strategies as st

from ottla.machines.comparisons.replicas import Comparison
from ottla_core.records.batch import HEADER_SIZE, placed_prefix, read_header


def log_of(counts: list[int]) -> list[bytes]:
    """Batches of so many records each, as a leader has placed them."""
    batches, offset = [], 0
    for epoch, count in enumerate(counts):
        batch = sealed(simple_records(count))
        batches.append(placed_prefix(read_header(batch), offset, epoch) + batch[16:])
        offset += count
    return batches


class Served:
    """A replica that answers as many whole batches as `cuts` says, call by call."""

    def __init__(self, batches: list[bytes], cuts: list[int]) -> None:
        self.batches = batches
        self.cuts = cuts
        self.calls = 0

    def fetch(self, offset: int) -> bytes:
        first = next(n for n, batch in enumerate(self.batches) if read_header(batch).next_offset > offset)
        count = self.cuts[self.calls % len(self.cuts)]
        self.calls += 1
        return b"".join(self.batches[first : first + count])


def compare(replicas: list[Served], start: int, end: int) -> Comparison:
    return compared(Comparison(range(len(replicas)), start, end), replicas)


counts = st.lists(st.integers(1, 5), min_size=1, max_size=12)
cuts = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@pytest.mark.feature(115)
@given(counts, st.lists(cuts, min_size=2, max_size=4), st.data())
def test_equal_replicas_are_equal_however_their_chunks_are_cut(
    counts: list[int], cuts: list[list[int]], data: st.DataObject
) -> None:
    batches = log_of(counts)
    ends = [read_header(batch).next_offset for batch in batches]
    end = data.draw(st.sampled_from(ends))
    start = data.draw(st.integers(0, end))
    comparison = compare([Served(batches, cut) for cut in cuts], start, end)
    assert comparison.differences == {}
    assert comparison.equal == tuple(range(len(cuts)))
    wanted = [b for b in batches if start < read_header(b).next_offset <= end]
    assert comparison.compared_bytes == (len(b"".join(wanted)) if start < end else 0)


@pytest.mark.feature(115)
@given(counts, st.lists(cuts, min_size=3, max_size=3), st.data())
def test_one_byte_that_differs_is_found_in_its_batch(
    counts: list[int], cuts: list[list[int]], data: st.DataObject
) -> None:
    batches = log_of(counts)
    victim = data.draw(st.integers(0, len(batches) - 1))
    at = data.draw(st.integers(HEADER_SIZE, len(batches[victim]) - 1))
    changed = bytearray(batches[victim])
    changed[at] ^= data.draw(st.integers(1, 255))
    tampered = [*batches[:victim], bytes(changed), *batches[victim + 1 :]]
    end = read_header(batches[-1]).next_offset
    broker = data.draw(st.integers(1, 2))
    logs = [tampered if number == broker else batches for number in range(3)]
    comparison = compare([Served(log, cut) for log, cut in zip(logs, cuts, strict=True)], 0, end)
    assert list(comparison.differences) == [broker]
    found = comparison.differences[broker]
    assert (found.offset, found.what) == (read_header(batches[victim]).base_offset, "bytes")
    assert found.expected is not None
    assert found.found is not None
    assert (found.expected.is_sound, found.found.is_sound) == (True, False)
    assert comparison.equal == (0, 3 - broker), "the others were compared to the end"
    assert comparison.compared_bytes == len(b"".join(batches))
