"""What a partition knows of its idempotent producers: is a batch new, a repeat, or out of line (KIP-98, KIP-360).

Of each producer id the epoch and the last five batches are kept (rule 25): as many as a producer has in flight. A
request is checked before its batches get offsets, each batch against what those before it would leave (rule 27):

    it follows the last one, in the same epoch           new
    it starts at 0, in a higher epoch                    new
    nothing is known of the producer                     new, whatever its sequence: what was known may have expired
    epoch, first and last sequence are those of a batch  a repeat, answered with the original offset (rule 26)
    it is older than the five                            DUPLICATE_SEQUENCE_NUMBER: it is in the log, not known where
    its epoch is lower                                   INVALID_PRODUCER_EPOCH (rule 31)
    anything else                                        OUT_OF_ORDER_SEQUENCE_NUMBER

Followers take what the leader took (rule 28). An entry is one immutable `bytes`, 160 at most: a hundred thousand
producers fit into 30 MB, a copy of them all for a snapshot takes a millisecond, and a snapshot's bytes are the entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import NO_PRODUCER_ID, BatchHeader

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1

_SEQUENCES: Final = 1 << 31  # after the last of them comes 0
_HEAD: Final = struct.Struct(">h?qq")  # epoch, known since sequence 0, last seen at in ms, last offset
_BATCH: Final = struct.Struct(">iiqq")  # first and last sequence, first offset, timestamp
_SEEN_AT: Final = struct.Struct(">3xq")
_LAST_OFFSET: Final = struct.Struct(">11xq")
_FULL: Final = _HEAD.size + BATCHES_KEPT * _BATCH.size
_SIZES: Final = frozenset(range(_HEAD.size, _FULL + 1, _BATCH.size))


class KeptBatch(NamedTuple):
    """A batch that lies in the log. `timestamp_ms` is its largest."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    timestamp_ms: int

    @property
    def last_offset(self) -> int:
        return self.first_offset + (self.last_sequence - self.first_sequence) % _SEQUENCES


class ProducerState(NamedTuple):
    """One entry, unpacked. `known_since_zero`: no sequence of this epoch has been missed."""

    epoch: int
    known_since_zero: bool
    seen_at_ms: int
    last_offset: int
    batches: tuple[KeptBatch, ...]


class Original(NamedTuple):
    """Where a request that is repeated lies in the log."""

    first_offset: int
    last_offset: int
    timestamp_ms: int


class Checked(NamedTuple):
    """What `check` came to: `original` of a repeat, or else what `apply` gets once the batches are written."""

    original: Original | None
    entries: Mapping[int, bytes]


_NOTHING_TO_KEEP: Final = Checked(None, {})


class Producers:
    """All producers of one partition. For one thread."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[int, bytes] | None = None) -> None:
        """Raises ValueError where an entry is none that `entries` gave."""
        self._entries: dict[int, bytes] = dict(entries or {})
        if not all(len(entry) in _SIZES for entry in self._entries.values()):
            raise ValueError("an entry is of no legal size")

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> dict[int, bytes]:
        """All there is, as it is now; for a snapshot."""
        return self._entries.copy()

    def newest_batches(self) -> frozenset[int]:
        """The last offset of each producer's newest batch: compaction keeps them (rule 30)."""
        return frozenset(_HEAD.unpack_from(entry)[3] for entry in self._entries.values())

    def get(self, producer_id: int) -> ProducerState | None:
        entry = self._entries.get(producer_id)
        if entry is None:
            return None
        epoch, known_since_zero, seen_at_ms, last_offset = _HEAD.unpack_from(entry)
        return ProducerState(epoch, known_since_zero, seen_at_ms, last_offset, tuple(_kept(entry)))

    # ---- on a leader ---------------------------------------------------------------------------------------------

    def check(self, headers: Iterable[BatchHeader], next_offset: int, now_ms: int) -> Checked:
        """What the batches of one request are, the first new one of which would lie at `next_offset`.

        A request repeats as a whole or is new as a whole: one response can't say where both lie. Raises
        INVALID_REQUEST for a mixture, and the errors of the table above; nothing is changed.
        """
        entries: dict[int, bytes] = {}
        repeats: list[KeptBatch | None] = []
        count = 0
        for header in headers:
            count += 1
            if header.producer_id != NO_PRODUCER_ID:
                known = entries.get(header.producer_id) or self._entries.get(header.producer_id)
                if known is not None and not _is_next(known, header):
                    repeats.append(_repeated(known, header))
                    continue
                entries[header.producer_id] = _with_batch(known, header, next_offset, now_ms)
            next_offset += header.last_offset_delta + 1
        if repeats:
            return Checked(_common_position(repeats, count), {})
        return Checked(None, entries) if entries else _NOTHING_TO_KEEP

    def apply(self, checked: Checked) -> None:
        """The batches are written at the offsets that `check` was called with."""
        self._entries.update(checked.entries)

    # ---- on a follower, and from the log --------------------------------------------------------------------------

    def on_stored(self, header: BatchHeader, seen_at_ms: int) -> bool:
        """A batch that the leader took, or that lies in the log; whether its epoch is not a step back.

        Control batches, and whatever has no sequence, only carry the epoch forward.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return True
        known = self._entries.get(header.producer_id)
        if header.base_sequence < 0 or header.is_control:
            entry = _with_epoch(known, header, seen_at_ms)
        else:
            entry = _with_batch(known, header, header.base_offset, seen_at_ms)
        self._entries[header.producer_id] = entry
        return known is None or header.producer_epoch >= _epoch_of(known)

    # ---- forgetting ------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that have been idle for `expiration_ms` (rule 30); how many."""
        idle = [id_ for id_, entry in self._entries.items() if now_ms - _SEEN_AT.unpack_from(entry)[0] >= expiration_ms]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def reaches(self, offset: int) -> bool:
        """Whether anything here comes from a batch at or after `offset`."""
        return any(_LAST_OFFSET.unpack_from(entry)[0] >= offset for entry in self._entries.values())


def _epoch_of(entry: bytes) -> int:
    return int.from_bytes(entry[:2], "big", signed=True)


def _is_known_since_zero(entry: bytes) -> bool:
    return entry[2] != 0


def _kept(entry: bytes) -> Iterable[KeptBatch]:
    return (KeptBatch(*_BATCH.unpack_from(entry, at)) for at in range(_HEAD.size, len(entry), _BATCH.size))


def _next_sequence(entry: bytes) -> int:
    """The one that has to come next in the entry's epoch."""
    if len(entry) == _HEAD.size:
        return 0  # a marker has raised the epoch
    last: int = _BATCH.unpack_from(entry, len(entry) - _BATCH.size)[1]
    return (last + 1) % _SEQUENCES


def _is_next(entry: bytes, header: BatchHeader) -> bool:
    """Whether the batch may be appended. Raises INVALID_PRODUCER_EPOCH and, in a new epoch, OUT_OF_ORDER_…"""
    epoch = _epoch_of(entry)
    if header.producer_epoch == epoch:
        return header.base_sequence == _next_sequence(entry)
    if header.producer_epoch < epoch:
        raise OttlaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} is at epoch {epoch}, this batch is of epoch {header.producer_epoch}",
            hint="a newer instance of the producer has taken over, or this request was long on its way",
        )
    if header.base_sequence != 0:
        raise _out_of_order(header, 0, f"the first of its epoch {header.producer_epoch}")
    return True


def _repeated(entry: bytes, header: BatchHeader) -> KeptBatch | None:
    """The batch that this one repeats, None where it is older than those that are kept. Raises OUT_OF_ORDER_…"""
    last_sequence = _last_sequence(header)
    kept = list(_kept(entry))
    for batch in kept:
        if (batch.first_sequence, batch.last_sequence) == (header.base_sequence, last_sequence):
            return batch
    if len(kept) == BATCHES_KEPT and _is_known_since_zero(entry):
        # Half of all sequences lie behind the oldest, half before it. Behind it, all are in the log: none was missed.
        behind = (kept[0].first_sequence - header.base_sequence) % _SEQUENCES
        if header.last_offset_delta < behind <= _SEQUENCES // 2:
            return None
    raise _out_of_order(header, _next_sequence(entry), "the next")


def _common_position(repeats: list[KeptBatch | None], count: int) -> Original:
    """Where a whole request lies, one batch behind the other."""
    kept = [batch for batch in repeats if batch is not None]
    if len(repeats) < count or any(a.last_offset + 1 != b.first_offset for a, b in pairwise(kept)):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(repeats)} of {count} batches for one partition repeat earlier ones that don't lie together with the "
            "rest, so that one answer can't say where all of them are; nothing was appended",
            hint="send these batches one by one",
        )
    if len(kept) < count:
        raise OttlaError(
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            f"the batches are in the log already, but only of the last {BATCHES_KEPT} of a producer is known where",
            hint="count them as written",
        )
    return Original(kept[0].first_offset, kept[-1].last_offset, kept[-1].timestamp_ms)


def _with_batch(known: bytes | None, header: BatchHeader, first_offset: int, seen_at_ms: int) -> bytes:
    """The entry after this batch, which is the newest of its producer."""
    batch = _BATCH.pack(header.base_sequence, _last_sequence(header), first_offset, header.max_timestamp)
    earlier, since_zero = b"", header.base_sequence == 0
    if known is not None and _epoch_of(known) == header.producer_epoch:
        earlier = known[_HEAD.size + (_BATCH.size if len(known) == _FULL else 0) :]
        since_zero = _is_known_since_zero(known) if earlier else since_zero
    last_offset = first_offset + header.last_offset_delta
    return _HEAD.pack(header.producer_epoch, since_zero, seen_at_ms, last_offset) + earlier + batch


def _with_epoch(known: bytes | None, header: BatchHeader, seen_at_ms: int) -> bytes:
    """The entry after a batch without sequences."""
    earlier, since_zero = b"", False
    if known is not None and _epoch_of(known) == header.producer_epoch:
        earlier, since_zero = known[_HEAD.size :], _is_known_since_zero(known)
    return _HEAD.pack(header.producer_epoch, since_zero, seen_at_ms, header.last_offset) + earlier


def _last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES


def _out_of_order(header: BatchHeader, expected: int, which: str) -> OttlaError:
    return OttlaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sends the sequence {header.base_sequence} where {expected} is {which}",
        hint="a batch before it is missing or still on its way; send them again in order",
    )
