"""A partition's knowledge of its idempotent producers tells whether a batch is new, a repeat, or out of line (KIP-98,
KIP-360).

For each producer id the epoch and the last five batches are kept (rule 25): as many as a producer has in flight. A
request is checked before its batches get offsets, each batch against what those before it would leave (rule 27):

    it follows the last one, in the same epoch           new
    it starts at 0, in a higher epoch                    new
    nothing is known of the producer                     new, whatever its sequence: what was known may have expired;
                                                         but OUT_OF_ORDER_SEQUENCE_NUMBER in a transaction, after a
                                                         batch that waits or is to come again (first_sequences), and
                                                         in transactions v2 unless it starts at 0, with a new epoch
    only markers of its epoch are known, not its begin   the same, within that epoch: its batches may have been deleted
    epoch, first and last sequence are those of a batch  a repeat, answered with the original offset (rule 26)
    it is older than the five                            DUPLICATE_SEQUENCE_NUMBER: it is in the log, not known where
    its epoch is lower                                   INVALID_PRODUCER_EPOCH (rule 31)
    anything else                                        OUT_OF_ORDER_SEQUENCE_NUMBER

A transactional batch opens a transaction of its producer, which a marker ends; a plain one in between is
INVALID_TXN_STATE (rule 42). Of markers (rule 36, KAFKA-19446, KAFKA-19999):

    its coordinator epoch is lower than one before       TRANSACTION_COORDINATOR_FENCED
    its producer epoch is lower                          INVALID_PRODUCER_EPOCH
    the same epoch, a transaction is open                new; INVALID_PRODUCER_EPOCH where markers raise epochs (v2)
    the same epoch, none is open                         a repeat; before v2 only in the same coordinator epoch
    anything else, whatever is open                      new: its epoch fences what is still on its way

Followers take what the leader took (rule 28). An entry is one immutable `bytes`, 160 at most: a hundred thousand
producers fit into 30 MB, a copy of them all for a snapshot takes a millisecond, and a snapshot's bytes are the entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from ottla_broker.machines.first_sequences import FirstSequences
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset
from ottla_broker.machines.transactions import AbortedTransaction, EndedTransaction, TransactionEnd, Transactions
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import NO_PRODUCER_ID, BatchHeader
from ottla_core.records.control import EndTransactionMarker
from ottla_core.transactions import ProducerEpochs, is_repeated_marker

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1

_SEQUENCES: Final = 1 << 31  # 0 follows the last of them
# Epoch, known since sequence 0, last seen at in ms, last offset; first offset of the open transaction, or -1; highest
# coordinator epoch of the markers, or -1.
_HEAD: Final = struct.Struct(">h?qqqi")
_BATCH: Final = struct.Struct(">iiqq")  # first and last sequence, first offset, timestamp
_SEEN_AT: Final = struct.Struct(">3xq")
_LAST_OFFSET: Final = struct.Struct(">11xq")
_TRANSACTION: Final = struct.Struct(">19xqi")
_FULL: Final = _HEAD.size + BATCHES_KEPT * _BATCH.size
_SIZES: Final = frozenset(range(_HEAD.size, _FULL + 1, _BATCH.size))


class KeptBatch(NamedTuple):
    """A batch that lies in the log. `timestamp_ms` is its largest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    timestamp_ms: int

    @property
    def last_offset(self) -> int:
        return self.first_offset + (self.last_sequence - self.first_sequence) % _SEQUENCES


class ProducerState(NamedTuple):
    """One entry, unpacked. `known_since_zero` says that no sequence of this epoch has been missed. `transaction_offset`
    is the first offset of the open transaction, or -1 without one. `coordinator_epoch` is the highest of the producer's
    markers, or -1 without any."""

    epoch: int
    known_since_zero: bool
    seen_at_ms: int
    last_offset: int
    transaction_offset: int
    coordinator_epoch: int
    batches: tuple[KeptBatch, ...]


class Original(NamedTuple):
    """Where the original of a repeated request lies in the log."""

    first_offset: int
    last_offset: int
    timestamp_ms: int


class Checked(NamedTuple):
    """The outcome of `check`. It has the `original` of a repeat, or else what `apply` gets once the batches are
    written. `begun` are the first offsets of transactions that begin, in order."""

    original: Original | None
    entries: Mapping[int, bytes]
    begun: Mapping[int, int]


_NOTHING_TO_KEEP: Final = Checked(None, {}, {})


class Producers:
    """All producers of one partition. For one thread."""

    __slots__ = ("_entries", "first_sequences", "transactions")

    def __init__(self, entries: Mapping[int, bytes] | None = None, ended: Iterable[EndedTransaction] = ()) -> None:
        """Restore the producers. `ended` are those of `Transactions.ended`. Raises ValueError for an entry that
        `entries` did not return."""
        self._entries: dict[int, bytes] = dict(entries or {})
        if not all(len(entry) in _SIZES for entry in self._entries.values()):
            raise ValueError("an entry has an illegal size")
        self.first_sequences: Final = FirstSequences()
        """Each is of a producer of which no sequence is known."""
        first_offsets = {id_: _transaction_of(entry)[0] for id_, entry in self._entries.items()}
        self.transactions: Final = Transactions({id_: at for id_, at in first_offsets.items() if at >= 0}, ended)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> dict[int, bytes]:
        """Return all entries as they are now, for a snapshot."""
        return self._entries.copy()

    def newest_batches(self) -> frozenset[int]:
        """Return the last offset of each producer's newest batch and, if that is a marker, of the newest batch with a
        sequence: compaction keeps them (rule 30). From any thread."""
        entries = list(self._entries.values())
        last_offsets = {_LAST_OFFSET.unpack_from(entry)[0] for entry in entries}
        return frozenset(last_offsets.union(*([b.last_offset for b in _kept(entry)][-1:] for entry in entries)))

    def get(self, producer_id: int) -> ProducerState | None:
        entry = self._entries.get(producer_id)
        if entry is None:
            return None
        return ProducerState._make((*_HEAD.unpack_from(entry), tuple(_kept(entry))))

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has a transaction open in this epoch."""
        return producer_id in self.transactions and _epoch_of(self._entries[producer_id]) == epoch

    def coordinator_epoch(self, producer_id: int) -> int:
        """Return the highest coordinator epoch of the producer's markers, or -1 without any."""
        return _transaction_of(self._entries.get(producer_id))[1]

    def oldest_transaction_seen_at_ms(self) -> int | None:
        """Return when the producer of the oldest open transaction has last written, or None if none is open. From any
        thread."""
        entry = self._entries.get(self.transactions.oldest())
        return None if entry is None else _SEEN_AT.unpack_from(entry)[0]

    def last_stable_offset(self, log_start_offset: int, high_watermark: HighWatermark) -> LastStableOffset:
        """Return the offset up to which readers of committed records may read (rule 37).

        It lies within the log: if records were deleted beyond the start of an open transaction, it is the log's start.
        """
        first_unstable = self.transactions.first_unstable(high_watermark)
        stable = high_watermark if first_unstable is None else min(first_unstable, high_watermark)
        return LastStableOffset(max(log_start_offset, stable))

    # ---- on a leader ---------------------------------------------------------------------------------------------

    def expect(self, header: BatchHeader, now_ms: int) -> None:
        """Note a transactional batch that waits or is to be sent again, so that no later one is taken before it."""
        if header.is_transactional and _may_begin_anywhere(self._entries.get(header.producer_id), header):
            self.first_sequences.expect(header, now_ms)

    def check_epoch(self, header: BatchHeader) -> None:
        """Raise INVALID_PRODUCER_EPOCH if a higher epoch of the producer is known."""
        known = self._entries.get(header.producer_id)
        if known is not None and header.producer_epoch < _epoch_of(known):
            raise _stale(header, _epoch_of(known))

    def check(
        self, headers: Iterable[BatchHeader], next_offset: int, now_ms: int, *, begins_at_zero: bool = False
    ) -> Checked:
        """Check the batches of one request, and find out whether they are new or a repeat. The first new one would lie
        at `next_offset`.

        With `begins_at_zero` they are of transactions v2, in which an unknown producer's first sequence is 0.

        A request repeats as a whole or is new as a whole, because one response can't say where both lie. Raises
        INVALID_REQUEST for a mixture, and the errors of the table above. Nothing is changed.
        """
        entries: dict[int, bytes] = {}
        begun: dict[int, int] = {}
        repeats: list[KeptBatch | None] = []
        count = 0
        for header in headers:
            count += 1
            if header.producer_id != NO_PRODUCER_ID:
                known = entries.get(header.producer_id) or self._entries.get(header.producer_id)
                if known is not None and not _is_next(known, header):
                    repeats.append(_repeated(known, header))
                    continue
                if _may_begin_anywhere(known, header):
                    self.first_sequences.check(header)
                    if begins_at_zero and header.base_sequence != 0:
                        raise _out_of_order(header, 0, "the first sequence of a transaction")
                is_open = header.producer_id in begun or header.producer_id in self.transactions
                if header.is_transactional and not is_open:
                    begun[header.producer_id] = next_offset
                elif is_open and not header.is_transactional:
                    raise _not_transactional(header)
                entries[header.producer_id] = _with_batch(known, header, next_offset, now_ms)
            next_offset += header.last_offset_delta + 1
        if repeats:
            return Checked(_common_position(repeats, count), {}, {})
        return Checked(None, entries, begun) if entries else _NOTHING_TO_KEEP

    def apply(self, checked: Checked) -> None:
        """Note that the batches are written at the offsets with which `check` was called."""
        self._entries.update(checked.entries)
        if self.first_sequences:
            for producer_id in checked.entries:
                self.first_sequences.forget(producer_id)
        for producer_id, first_offset in checked.begun.items():
            self.transactions.begin(producer_id, first_offset)

    def check_marker(self, end: TransactionEnd) -> int | None:
        """Return None if the marker is to be written. For a repeat, return an offset at or after the original.

        Raises TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH.
        """
        state = self.get(end.producer_id)
        if state is None:
            return None
        is_repeat = is_repeated_marker(
            ProducerEpochs(state.epoch, state.coordinator_epoch),
            ProducerEpochs(end.producer_epoch, end.marker.coordinator_epoch),
            end.producer_id,
            is_open=state.transaction_offset >= 0,
            raises_epochs=end.raises_epochs,
        )
        return state.last_offset if is_repeat else None

    # ---- on a follower, and from the log --------------------------------------------------------------------------

    def on_stored(self, header: BatchHeader, seen_at_ms: int) -> bool:
        """Note a batch that the leader took, or that lies in the log. Return whether its epoch is not a step back.

        Control batches, and other batches without a sequence, raise the epoch and leave the sequences alone. A batch
        that a clean has emptied opens no transaction: its marker may be gone.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return True
        known = self._entries.get(header.producer_id)
        if header.base_sequence < 0 or header.is_control:
            entry = _with_epoch(known, header, seen_at_ms)
        else:
            entry = _with_batch(known, header, header.base_offset, seen_at_ms)
        self._entries[header.producer_id] = entry
        self.first_sequences.forget(header.producer_id)
        if _begins(header):
            self.transactions.begin(header.producer_id, header.base_offset)
        return known is None or header.producer_epoch >= _epoch_of(known)

    def on_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, seen_at_ms: int
    ) -> AbortedTransaction | None:
        """Note a marker whose batch lies in the log. Return the transaction that it has aborted, if any."""
        known = self._entries.get(header.producer_id)
        coordinator_epoch = max(marker.coordinator_epoch, _transaction_of(known)[1])
        entry = _with_epoch(known, header, seen_at_ms, (-1, coordinator_epoch))
        self._entries[header.producer_id] = entry
        self.first_sequences.forget(header.producer_id)
        ended = self.transactions.end(header.producer_id, header.last_offset)
        if ended is None or marker.committed:
            return None
        first_open = self.transactions.first_open()
        stable = header.next_offset if first_open is None else first_open
        return AbortedTransaction(header.producer_id, ended.first_offset, header.last_offset, stable)

    # ---- forgetting ------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that have been idle for `expiration_ms`, except those with an open transaction (rule
        30). Return how many."""
        self.first_sequences.expire(now_ms, expiration_ms)
        idle = [
            id_
            for id_, entry in self._entries.items()
            if now_ms - _SEEN_AT.unpack_from(entry)[0] >= expiration_ms and id_ not in self.transactions
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def reaches(self, offset: int) -> bool:
        """Return whether anything here comes from a batch at or after `offset`."""
        return self.transactions.reaches(offset) or any(
            _LAST_OFFSET.unpack_from(entry)[0] >= offset for entry in self._entries.values()
        )


def _epoch_of(entry: bytes) -> int:
    return int.from_bytes(entry[:2], "big", signed=True)


def _transaction_of(entry: bytes | None) -> tuple[int, int]:
    """Return the first offset of the entry's open transaction and the highest coordinator epoch, or -1 for each that it
    lacks."""
    return (-1, -1) if entry is None else _TRANSACTION.unpack_from(entry)


def _begins(header: BatchHeader) -> bool:
    """Return whether a transaction is open once the batch lies in the log."""
    return header.is_transactional and not header.is_control and header.record_count > 0


def _is_known_since_zero(entry: bytes) -> bool:
    return entry[2] != 0


def _kept(entry: bytes) -> Iterable[KeptBatch]:
    return (KeptBatch(*_BATCH.unpack_from(entry, at)) for at in range(_HEAD.size, len(entry), _BATCH.size))


def _next_sequence(entry: bytes) -> int:
    """Return the sequence that has to come next in the entry's epoch."""
    if len(entry) == _HEAD.size:
        return 0  # a marker has raised the epoch
    last: int = _BATCH.unpack_from(entry, len(entry) - _BATCH.size)[1]
    return (last + 1) % _SEQUENCES


def _is_next(entry: bytes, header: BatchHeader) -> bool:
    """Return whether the batch may be appended. Raises INVALID_PRODUCER_EPOCH and, in a new epoch, OUT_OF_ORDER_…"""
    epoch = _epoch_of(entry)
    if header.producer_epoch == epoch:
        return header.base_sequence == _next_sequence(entry) or _may_begin_anywhere(entry, header)
    if header.producer_epoch < epoch:
        raise _stale(header, epoch)
    if header.base_sequence != 0:
        raise _out_of_order(header, 0, f"the first sequence of epoch {header.producer_epoch}")
    return True


def _may_begin_anywhere(entry: bytes | None, header: BatchHeader) -> bool:
    """Return whether the batch may have any sequence, because nothing is known of those before it.

    Of an epoch that is known by a marker alone, batches may have been before it. A replica that begins where its leader
    begins has not seen those that were deleted.
    """
    return entry is None or (
        len(entry) == _HEAD.size and not _is_known_since_zero(entry) and header.producer_epoch == _epoch_of(entry)
    )


def _repeated(entry: bytes, header: BatchHeader) -> KeptBatch | None:
    """Return the batch that this one repeats, or None if it is older than those that are kept. Raises OUT_OF_ORDER_…"""
    last_sequence = _last_sequence(header)
    kept = list(_kept(entry))
    for batch in kept:
        if (batch.first_sequence, batch.last_sequence) == (header.base_sequence, last_sequence):
            return batch
    if len(kept) == BATCHES_KEPT and _is_known_since_zero(entry):
        # Half of all sequences lie behind the oldest, half before it. All that lie behind it are in the log, because
        # none was missed.
        behind = (kept[0].first_sequence - header.base_sequence) % _SEQUENCES
        if header.last_offset_delta < behind <= _SEQUENCES // 2:
            return None
    raise _out_of_order(header, _next_sequence(entry), "the expected sequence")


def _common_position(repeats: list[KeptBatch | None], count: int) -> Original:
    """Return where a whole request is in the log, its batches one after another."""
    kept = [batch for batch in repeats if batch is not None]
    if len(repeats) < count or any(a.last_offset + 1 != b.first_offset for a, b in pairwise(kept)):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the log already contains {len(repeats)} of the request's {count} batches for a partition, but not all "
            f"{count} back to back, so one response can't report their offsets; nothing was appended",
            hint="send these batches one by one",
        )
    if len(kept) < count:
        raise OttlaError(
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            f"the batches are already in the log, but the broker knows the offsets of only the last {BATCHES_KEPT} "
            "batches of a producer",
            hint="treat the batches as written",
        )
    return Original(kept[0].first_offset, kept[-1].last_offset, kept[-1].timestamp_ms)


def _with_batch(known: bytes | None, header: BatchHeader, first_offset: int, seen_at_ms: int) -> bytes:
    """Return the entry after this batch, which is the newest of its producer."""
    batch = _BATCH.pack(header.base_sequence, _last_sequence(header), first_offset, header.max_timestamp)
    earlier, since_zero = b"", header.base_sequence == 0
    if known is not None and _epoch_of(known) == header.producer_epoch:
        earlier = known[_HEAD.size + (_BATCH.size if len(known) == _FULL else 0) :]
        since_zero = _is_known_since_zero(known) if earlier else since_zero
    last_offset = first_offset + header.last_offset_delta
    transaction = _after(known, header, first_offset)
    return _HEAD.pack(header.producer_epoch, since_zero, seen_at_ms, last_offset, *transaction) + earlier + batch


def _after(known: bytes | None, header: BatchHeader, first_offset: int) -> tuple[int, int]:
    """Return what `_transaction_of` returns after this batch, which is no marker."""
    open_from, coordinator_epoch = _transaction_of(known)
    return (first_offset if open_from < 0 and _begins(header) else open_from), coordinator_epoch


def _with_epoch(
    known: bytes | None, header: BatchHeader, seen_at_ms: int, transaction: tuple[int, int] | None = None
) -> bytes:
    """Return the entry after a batch without sequences. For a marker, `transaction` is what `_transaction_of` returns
    after it."""
    earlier, since_zero = b"", known is not None  # an epoch that follows a known one begins here
    if known is not None and _epoch_of(known) == header.producer_epoch:
        earlier, since_zero = known[_HEAD.size :], _is_known_since_zero(known)
    transaction = transaction or _after(known, header, header.base_offset)
    return _HEAD.pack(header.producer_epoch, since_zero, seen_at_ms, header.last_offset, *transaction) + earlier


def _last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


def _stale(header: BatchHeader, epoch: int) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} is at epoch {epoch}, but this batch has epoch {header.producer_epoch}",
        hint="a newer instance of the producer has taken over, or this request was delayed",
    )


def _out_of_order(header: BatchHeader, expected: int, which: str) -> OttlaError:
    return OttlaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, but {which} is {expected}",
        hint="an earlier batch is missing or still in flight; send the batches again, in order",
    )


def _not_transactional(header: BatchHeader) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {header.producer_id} has an open transaction in this partition, but sent a batch that is not part "
        "of it",
        hint="commit or abort the transaction first",
    )
