"""Which transactions of a partition are open, and which have ended where not every replica knows of it yet. Pure.

What lies at or after the first of them is not stable (rule 37). One that has ended counts until its marker lies below
the high watermark: a marker that is lost with its leader leaves the transaction open.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla_broker.machines.offsets import HighWatermark
from ottla_core.records.batch import NO_PRODUCER_ID
from ottla_core.records.control import EndTransactionMarker


class EndedTransaction(NamedTuple):
    first_offset: int
    marker_offset: int


class AbortedTransaction(NamedTuple):
    """Void are the producer's transactional records from `first_offset` to its abort marker at `last_offset`.

    `last_stable_offset`: no transaction was open before it when this one had ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionEnd(NamedTuple):
    """What a txn-coordinator has decided about a producer's transaction. `raises_epochs`: transactions v2, whose
    markers have a higher epoch than the batches."""

    producer_id: int
    producer_epoch: int
    marker: EndTransactionMarker
    raises_epochs: bool


class Transactions:
    """For one thread. Those that are open lie in the order of their first offsets: the first costs nothing to find."""

    __slots__ = ("_ended", "_open")

    def __init__(self, first_offsets: Mapping[int, int], ended: Iterable[EndedTransaction]) -> None:
        """`first_offsets` of the open ones, by producer id."""
        self._open = OrderedDict(sorted(first_offsets.items(), key=lambda item: item[1]))
        self._ended = sorted(ended)  # which is a heap

    def __contains__(self, producer_id: int) -> bool:
        """Whether the producer has an open one."""
        return producer_id in self._open

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Behind all others; where one is open already, nothing changes."""
        self._open.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int) -> EndedTransaction | None:
        """A marker lies there; what it has ended, if anything was open."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = EndedTransaction(first_offset, marker_offset)
        heapq.heappush(self._ended, ended)
        return ended

    def ended(self) -> tuple[EndedTransaction, ...]:
        """Those whose markers may not lie below the high watermark yet."""
        return tuple(self._ended)

    def oldest(self) -> int:
        """The producer of the first that is open, or -1; from any thread."""
        return next(iter(list(self._open)), NO_PRODUCER_ID)

    def first_open(self) -> int | None:
        return next(iter(self._open.values())) if self._open else None

    def first_unstable(self, high_watermark: HighWatermark) -> int | None:
        """The first offset of any that is open, or whose marker is not below the high watermark. It never goes back."""
        ended = self._ended
        while ended and ended[0].marker_offset < high_watermark:
            heapq.heappop(ended)
        first_open = self.first_open()
        if not ended:
            return first_open
        return ended[0].first_offset if first_open is None else min(first_open, ended[0].first_offset)

    def reaches(self, offset: int) -> bool:
        """Whether a marker of those that have ended lies at or after `offset`."""
        return any(ended.marker_offset >= offset for ended in self._ended)
