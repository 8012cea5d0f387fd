"""The transactions of a partition that keep records from being stable. They are open, or not every replica is known to
have their end. Pure.

No record at or after the first offset of any of them is stable (rule 37). An ended transaction counts until its marker
lies below the high watermark, because a marker that is lost with its leader leaves the transaction open.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla_broker.machines.offsets import HighWatermark
from ottla_core.records.batch import NO_PRODUCER_ID
from ottla_core.records.control import EndTransactionMarker

NO_OFFSET: Final = -1


class EndedTransaction(NamedTuple):
    first_offset: int
    marker_offset: int


class AbortedTransaction(NamedTuple):
    """The producer's transactional records from `first_offset` to its abort marker at `last_offset` are void.

    `last_stable_offset` says that no transaction was open before it when this one had ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionEnd(NamedTuple):
    """A txn-coordinator's decision about a producer's transaction. With `raises_epochs` it is of transactions v2, whose
    markers have a higher epoch than the batches."""

    producer_id: int
    producer_epoch: int
    marker: EndTransactionMarker
    raises_epochs: bool


class Transactions:
    """The open transactions of one partition, and the ended ones that hold its last stable offset back. For one thread.

    Both are kept in order, so that the first of them costs nothing to find. `forget_below` is the only method that
    forgets an ended transaction: it is called where a replica's high watermark moves, in every role. Questions change
    nothing.
    """

    __slots__ = ("_ended", "_forgotten_to", "_open")

    def __init__(self, first_offsets: Mapping[int, int], ended: Iterable[EndedTransaction]) -> None:
        """Restore the transactions. `first_offsets` has those of the open ones, by producer id."""
        self._open = OrderedDict(sorted(first_offsets.items(), key=lambda item: item[1]))
        self._ended: deque[EndedTransaction] = deque()
        self._forgotten_to = NO_OFFSET
        for each in sorted(ended, key=lambda transaction: transaction.marker_offset):
            self._add_ended(each)

    def __contains__(self, producer_id: int) -> bool:
        """Return whether the producer has an open transaction."""
        return producer_id in self._open

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a transaction behind all others. If the producer has an open one already, nothing changes."""
        self._open.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int) -> EndedTransaction | None:
        """Note the producer's marker, which lies behind all others. Return the transaction that it ends, if any is
        open."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = EndedTransaction(first_offset, marker_offset)
        self._add_ended(ended)
        return ended

    def _add_ended(self, ended: EndedTransaction) -> None:
        """Add an ended transaction, and drop those that began after it: they ended before it, so they don't matter
        while it counts."""
        while self._ended and self._ended[-1].first_offset >= ended.first_offset:
            self._ended.pop()
        self._ended.append(ended)

    def ended(self) -> tuple[EndedTransaction, ...]:
        """Return the ended transactions whose markers are not known to lie below the high watermark, as far as they
        hold the last stable offset back. A snapshot keeps them."""
        return tuple(self._ended)

    def forget_below(self, high_watermark: HighWatermark) -> None:
        """Forget the ended transactions whose markers lie below `high_watermark`: every replica has those markers."""
        ended = self._ended
        while ended and ended[0].marker_offset < high_watermark:
            self._forgotten_to = ended.popleft().marker_offset

    def forget_open(self) -> None:
        """Forget the open transactions, whose markers may be among records that are gone.

        A transaction that goes on is known again by its next records.
        """
        self._open.clear()

    def oldest(self) -> int:
        """Return the producer of the first open transaction, or -1. From any thread."""
        return next(iter(list(self._open)), NO_PRODUCER_ID)

    def first_open(self) -> int | None:
        return next(iter(self._open.values())) if self._open else None

    def first_unstable(self, high_watermark: HighWatermark) -> int | None:
        """Return the smallest first offset of the transactions that are open, or whose marker is not below the high
        watermark."""
        first_open = self.first_open()
        for ended in self._ended:  # the first that counts began before all behind it
            if ended.marker_offset >= high_watermark:
                return ended.first_offset if first_open is None else min(first_open, ended.first_offset)
        return first_open

    def reaches(self, offset: int) -> bool:
        """Return whether a transaction's marker lies at or after `offset`, even if the transaction is forgotten.

        In a log that is cut there, that transaction is open again.
        """
        return self._forgotten_to >= offset or bool(self._ended and self._ended[-1].marker_offset >= offset)
