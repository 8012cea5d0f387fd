"""Replicas of a compacted partition in memory, each cleaned by the broker's rules when it likes, read by fetches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from batches import NOON
from cleanings import header_of

from ottla.machines.comparisons.compacted import CompactedComparison
from ottla.machines.comparisons.replicas import Comparison
from ottla_broker.compaction.survivors import NO_FENCE, Survival
from ottla_broker.compaction.transactions import CleanedTransactions
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_core.records.aborted import AbortedTransactions, without_aborted
from ottla_core.records.fence import fence_of
from ottla_core.records.reader import read_records

ROUNDS = 10_000

C = TypeVar("C", bound=Comparison)


class Fetched(Protocol):
    """A replica that is read by fetches, without what was aborted."""

    def fetch(self, offset: int) -> bytes: ...


class CleanedReplica:
    """`before_fetch` may change it; a fetch has `per_fetch` batches at most."""

    def __init__(
        self,
        batches: Sequence[bytes],
        *,
        high_watermark: int | None = None,
        per_fetch: int = 1,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> None:
        self.aborted = aborted
        self.batches = list(batches)
        self.high_watermark = header_of(self.batches[-1]).next_offset if high_watermark is None else high_watermark
        self.per_fetch = per_fetch
        self.before_fetch: Callable[[int], object] = lambda offset: None

    def clean(self, end_offset: int, *, now_ms: int = NOON, retention_ms: int = 0) -> None:
        """All below `end_offset` at once, as if nothing of it had been cleaned before."""
        end_offset = min(end_offset, self.high_watermark)
        transactions = CleanedTransactions(self.aborted, ())
        newest: dict[bytes, int] = {}
        newest_fence = NO_FENCE
        for batch in self.batches:
            header = header_of(batch)
            if header.next_offset > end_offset:
                end_offset = min(end_offset, header.base_offset)
            elif header.is_control:
                newest_fence = header.base_offset if fence_of(batch) else newest_fence
            elif not transactions.are_void(header):
                newest |= {key: offset for offset, _, key, _, _ in read_records(batch) if key is not None}
        survival = Survival(
            lambda key: newest.get(key, -1),
            newest_fence,
            0,
            end_offset,
            now_ms,
            retention_ms,
            transactions,
        )
        left = [(batch, survival.of(header_of(batch), batch)) for batch in self.batches]
        self.batches = [s.batch for b, s in left if s.record_count or header_of(b).base_offset >= end_offset]

    def fetch(self, offset: int) -> bytes:
        self.before_fetch(offset)
        there = [b for b in self.batches if offset < header_of(b).next_offset <= self.high_watermark]
        records = b"".join(there[: self.per_fetch])
        overlapping = [(each.producer_id, each.first_offset) for each in self.aborted if each.last_offset >= offset]
        return without_aborted(records, AbortedTransactions(overlapping))


def compare(*replicas: CleanedReplica, start: int = 0, end: int | None = None) -> CompactedComparison:
    """Up to the smallest high watermark, as `check_replicas` does it."""
    end = min(replica.high_watermark for replica in replicas) if end is None else end
    return compared(CompactedComparison(range(len(replicas)), start, end), replicas)


def compared(comparison: C, replicas: Sequence[Fetched]) -> C:
    """Once it needs nothing more of them."""
    for _ in range(ROUNDS):
        wants = comparison.wants()
        if not wants:
            return comparison
        for broker, offset in wants:
            comparison.on_records(broker, replicas[broker].fetch(offset))
        comparison.compare()
    raise AssertionError("the comparison does not end")
