"""These functions turn a fetched block into batches for the target, which keep their bytes wherever that is correct.

Decoding every record would make a mirror many times slower than a broker. But a batch also says things about its log,
and those are not true in another log. So the rule is: records travel as bytes, and whatever belongs to the source's log
is replaced or makes the batch be encoded again.

* A batch's offsets, leader epoch, producer id, epoch, sequence and transaction are replaced (`SealedBatch`). The CRC
  over the old header is checked first, or damage would get a right CRC in the copy.
* A batch is encoded again if not all its records are wanted, if compaction left gaps, or if it has a delete horizon or
  the broker's timestamps.
* Every batch of a marked flow (`LoopMarks`) is encoded again. Records that would return to where they came from are
  left out.
* Small adjacent batches are encoded together. A target takes only five batches of a partition at a time, so without
  this a producer that sends record by record would be faster than its mirror.
* Markers, and batches of aborted transactions, are not copied: what is fetched is decided (rule 38: the reader drops
  aborted records).

Where copies keep the source's offsets, batches stay as they are, gaps and all, except for their producer and
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla_core.model import TopicId
from ottla_core.records.aborted import AbortedTransactions
from ottla_core.records.batch import HEADER_SIZE, BatchHeader, check_stored, iter_headers, of_no_producer
from ottla_core.records.builder import SealedBatch, is_sendable
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_mirror.machines.encoding import EncodedBatch, Run
from ottla_mirror.machines.loop_marks import LoopMarks

_ENCODED_BYTES: Final = 1024 * 1024
"""A batch that is encoded again has at most this size."""

# A batch is small, and worth decoding, if it is below both limits: above them the cost of a batch is in its records.
_SMALL_BYTES: Final = 4 * 1024
_SMALL_RECORDS: Final = 32
_JOINED_BYTES: Final = 64 * 1024
"""A batch that joins small ones has at most this size. A copy has the source's `max.message.bytes`, which is rarely
less."""

_Checked = tuple[BatchHeader, memoryview]
"""A batch whose CRC is right, and its header."""


class Fetched(Protocol):
    """A reader returns these: `ottla.connect.FetchedBatches`."""

    @property
    def topic_id(self) -> TopicId: ...
    @property
    def records(self) -> bytes: ...
    @property
    def aborted(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """A batch for the target has records from `runs` of the source, where they were written in `leader_epoch`. Reading
    resumes at `next_offset`."""

    batch: SealedBatch
    runs: tuple[Run, ...]
    next_offset: int
    leader_epoch: int

    @property
    def record_count(self) -> int:
        return self.batch.record_count

    @property
    def size_bytes(self) -> int:
        return self.batch.size_bytes

    @property
    def max_timestamp_ms(self) -> int:
        return self.batch.max_timestamp_ms


class KeptBatch(NamedTuple):
    """A kept batch goes to the target at its own offsets: `data`, whose header in the source is `header`."""

    header: BatchHeader
    data: bytes

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A kept block has one or more batches of a fetched block, which go to the target at their own offsets."""

    batches: tuple[KeptBatch, ...]

    @property
    def base_offset(self) -> int:
        return self.batches[0].base_offset

    @property
    def next_offset(self) -> int:
        return self.batches[-1].next_offset

    @property
    def leader_epoch(self) -> int:
        return self.batches[-1].header.leader_epoch

    @property
    def runs(self) -> tuple[Run, ...]:
        """These are the runs of adjacent offsets. Gaps within batches are where they were in the source. Gaps between
        batches end a run."""
        runs: list[Run] = []
        for batch in self.batches:
            if runs and runs[-1].next == batch.base_offset:
                runs[-1] = Run(runs[-1].first, batch.next_offset - runs[-1].first)
            else:
                runs.append(Run(batch.base_offset, batch.next_offset - batch.base_offset))
        return tuple(runs)

    @property
    def record_count(self) -> int:
        return sum(batch.header.record_count for batch in self.batches)

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.data) for batch in self.batches)

    @property
    def max_timestamp_ms(self) -> int:
        return max(batch.header.max_timestamp for batch in self.batches)


def outgoing(fetched: Fetched, marks: LoopMarks | None = None, *, joins: bool = True) -> Iterator[OutgoingBatch]:
    """Yield the batches to be written, in their order. With `joins`, small neighbours become one batch.

    Raises CORRUPT_MESSAGE before a batch that can't be read.
    """
    for batches in _groups(_committed(fetched), joins):
        header, batch = batches[0]
        # A block begins with the whole batch that holds the requested offset. Records before that offset were copied
        # already.
        is_whole = marks is None and is_sendable(header) and header.base_offset >= fetched.offset
        if is_whole and len(batches) == 1:
            run = Run(header.base_offset, header.record_count)
            sealed = SealedBatch(header, batch[HEADER_SIZE:])
            yield OutgoingBatch(sealed, (run,), header.next_offset, header.leader_epoch)
        else:
            yield from _encoded_anew(batches, fetched.offset, marks)


def _groups(batches: Iterable[_Checked], joins: bool) -> Iterator[list[_Checked]]:
    """Group small adjacent batches with one codec, as far as a batch has room. Each other batch is a group by
    itself."""
    group, room = list[_Checked](), 0
    for header, batch in batches:
        is_small = joins and header.size_bytes <= _SMALL_BYTES and header.record_count <= _SMALL_RECORDS
        if group and not (is_small and header.size_bytes <= room and header.codec == group[-1][0].codec):
            yield group
            group = []
        if not group:
            room = _JOINED_BYTES if is_small else 0
        group.append((header, batch))
        room -= header.size_bytes
    if group:
        yield group


def kept(fetched: Fetched) -> Iterator[KeptBatch]:
    """Yield the batches to be written at their own offsets. Raises CORRUPT_MESSAGE before one that can't be read."""
    return (KeptBatch(header, of_no_producer(header, batch)) for header, batch in _committed(fetched))


def _committed(fetched: Fetched) -> Iterator[_Checked]:
    """Yield the batches that have records for readers of committed ones, checked."""
    data = memoryview(fetched.records)
    aborted = AbortedTransactions(fetched.aborted) if fetched.aborted else None
    for at, header in iter_headers(data):
        # It is shown every header, even those that are skipped, because a marker ends a transaction for the batches
        # behind it.
        left_out = aborted is not None and aborted.leaves_out(header)
        if left_out or header.is_control or not header.record_count or header.next_offset <= fetched.offset:
            continue
        batch = data[at : at + header.size_bytes]
        # This comes after the cheap tests, so that the CRC is computed only over batches that are copied.
        check_stored(batch)
        yield header, batch


def _encoded_anew(batches: Sequence[_Checked], first_offset: int, marks: LoopMarks | None) -> Iterator[OutgoingBatch]:
    most_bytes = _ENCODED_BYTES if len(batches) == 1 else _JOINED_BYTES
    codec, encoded, epoch = Codec(batches[0][0].codec), EncodedBatch(most_bytes), -1
    for header, batch in batches:
        for offset, timestamp_ms, key, value, own_headers in read_records(batch):
            headers = own_headers if marks is None else marks.of_copy(own_headers)
            if offset < first_offset or headers is None:
                continue
            if not encoded.append(offset, timestamp_ms, key, value, headers):
                # Reading resumes at this record, which had no room in the batch.
                yield _sealed(encoded, codec, offset, epoch)
                encoded = EncodedBatch(most_bytes)
                encoded.append(offset, timestamp_ms, key, value, headers)
            epoch = header.leader_epoch
    if encoded.runs:
        last, _ = batches[-1]
        # Reading resumes behind the last batch, and not behind its last record, because records that were left out must
        # not be read again.
        yield _sealed(encoded, codec, last.next_offset, last.leader_epoch)


def _sealed(encoded: EncodedBatch, codec: Codec, next_offset: int, leader_epoch: int) -> OutgoingBatch:
    return OutgoingBatch(SealedBatch(*encoded.seal(codec)), tuple(encoded.runs), next_offset, leader_epoch)
