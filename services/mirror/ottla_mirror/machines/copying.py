"""What of a fetched block is written to the target, and as what: batches as the bytes they are, wherever that is right.

* A batch's records travel as bytes; its offsets, leader epoch, producer id, epoch, sequence and transaction were of the
  source's log, and are replaced (`SealedBatch`). The CRC over the old header is checked first.
* Encoded anew is each batch whose records are not all wanted, are fewer than its offsets (compaction left gaps), have a
  delete horizon, or the broker's time: such a batch says something about the source's log that is not true elsewhere.
* So is each batch of a flow whose records say which way they have come (`LoopMarks`); those that have come from where
  they would go are left out.
* Markers, and batches of aborted transactions, are not copied: what is fetched is decided (rule 38).

Where copies keep the source's offsets, batches stay as they are, gaps and all, but for their producer and transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla_core.model import TopicId
from ottla_core.records.aborted import AbortedTransactions
from ottla_core.records.batch import HEADER_SIZE, BatchHeader, check_stored, iter_headers, of_no_producer, read_header
from ottla_core.records.builder import RecordBatchBuilder, SealedBatch, is_sendable
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder
from ottla_mirror.machines.loop_marks import LoopMarks

_ENCODED_BYTES: Final = 1024 * 1024


class Fetched(Protocol):
    """What a reader hands out: `ottla.connect.FetchedBatches`."""

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


class Run(NamedTuple):
    """Records with adjacent offsets in the source, which are adjacent in the target as well."""

    first: int
    length: int

    @property
    def next(self) -> int:
        """The offset after the last one."""
        return self.first + self.length

    def after(self, length: int) -> Run:
        """Without the first `length` of them."""
        return Run(self.first + length, self.length - length)


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """A batch for the target: its records are `runs` of the source, written there in `leader_epoch`; reading goes on at
    `next_offset`."""

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
    """A batch for the target at the offsets that it has: `data`, whose header in the source is `header`."""

    header: BatchHeader
    data: bytes

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    @property
    def leader_epoch(self) -> int:
        return self.header.leader_epoch

    @property
    def runs(self) -> tuple[Run, ...]:
        """Gaps are where they were."""
        return (Run(self.base_offset, self.next_offset - self.base_offset),)

    @property
    def record_count(self) -> int:
        return self.header.record_count

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @property
    def max_timestamp_ms(self) -> int:
        return self.header.max_timestamp


def outgoing(fetched: Fetched, marks: LoopMarks | None = None) -> Iterator[OutgoingBatch]:
    """The batches to be written, in their order. Raises CORRUPT_MESSAGE before one that can't be read."""
    for header, batch in _committed(fetched):
        if marks is None and is_sendable(header) and header.base_offset >= fetched.offset:
            run = Run(header.base_offset, header.record_count)
            yield OutgoingBatch(
                SealedBatch(header, batch[HEADER_SIZE:]), (run,), header.next_offset, header.leader_epoch
            )
        else:
            yield from _encoded_anew(header, batch, fetched.offset, marks)


def kept(fetched: Fetched) -> Iterator[KeptBatch]:
    """The batches to be written at their own offsets. Raises CORRUPT_MESSAGE before one that can't be read."""
    return (KeptBatch(header, of_no_producer(header, batch)) for header, batch in _committed(fetched))


def _committed(fetched: Fetched) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches that have records for readers of committed ones, checked."""
    data = memoryview(fetched.records)
    aborted = AbortedTransactions(fetched.aborted) if fetched.aborted else None
    for at, header in iter_headers(data):
        left_out = aborted is not None and aborted.leaves_out(header)
        if left_out or header.is_control or not header.record_count or header.next_offset <= fetched.offset:
            continue
        batch = data[at : at + header.size_bytes]
        check_stored(batch)
        yield header, batch


def _encoded_anew(
    header: BatchHeader, batch: memoryview, first_offset: int, marks: LoopMarks | None
) -> Iterator[OutgoingBatch]:
    builder, runs = new_builder(_ENCODED_BYTES), list[Run]()
    for offset, timestamp_ms, key, value, own_headers in read_records(batch):
        headers = own_headers if marks is None else marks.of_copy(own_headers)
        if offset < first_offset or headers is None:
            continue
        timestamp_ms = max(0, timestamp_ms)  # of a record that has none
        if not builder.append(timestamp_ms, key, value, headers):
            yield _sealed(builder, header, runs, offset)
            builder, runs = new_builder(_ENCODED_BYTES), []
            builder.append(timestamp_ms, key, value, headers)
        if runs and runs[-1].next == offset:
            runs[-1] = Run(runs[-1].first, runs[-1].length + 1)
        else:
            runs.append(Run(offset, 1))
    if runs:
        yield _sealed(builder, header, runs, header.next_offset)


def _sealed(builder: RecordBatchBuilder, header: BatchHeader, runs: list[Run], next_offset: int) -> OutgoingBatch:
    encoded = builder.seal(Codec(header.codec))
    sealed = SealedBatch(read_header(encoded), memoryview(encoded)[HEADER_SIZE:])
    return OutgoingBatch(sealed, tuple(runs), next_offset, header.leader_epoch)
