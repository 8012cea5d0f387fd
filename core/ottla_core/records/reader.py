"""The records of a batch, read without trusting any of it.

It is checked to its last byte before its first record leaves: a batch is read whole or is CORRUPT_MESSAGE whole, and no
offset is ever skipped (rule 64). Its records are parsed a second time while they are handed out: a tuple is made when
it is wanted, and a batch of many small records costs the memory of its bytes, not thirty times as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, pairwise, starmap
from operator import lt
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, Buffer, check_stored, corrupt
from ottla_core.records.compression import decompress
from ottla_core.records.record import RawRecord, RecordSource
from ottla_core.records.twins import twin

_AT_ONCE: Final = 4096


def read_records(batch: Buffer, *, pure: bool = False) -> Iterator[RawRecord]:
    """The records of exactly one batch, in offset order; control records too (`BatchHeader.is_control`).

    With log-append time every record has the batch's maxTimestamp. Everything is raised here, nothing while iterating:
    CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE.
    """
    header = check_stored(batch)
    if header.size_bytes != len(batch):
        raise corrupt(f"{len(batch) - header.size_bytes} bytes follow a batch of {header.size_bytes}")
    return sound_records(header, batch, pure=pure)


def sound_records(header: BatchHeader, batch: Buffer, *, pure: bool = False) -> Iterator[RawRecord]:
    """As `read_records`, of the one batch of `header` that passed `check_stored`: its bytes are what was written."""
    records = decompress(header.codec, memoryview(batch)[HEADER_SIZE:])
    plain = header._replace(attributes=header.attributes & ~CODEC_MASK) if header.codec else header
    source = twin(pure=pure).source(plain, records)
    try:
        _check_inside(header, source)
    except UnicodeDecodeError:
        # A header's name is not UTF-8: only the pure twin reads it as Java does.
        return sound_records(header, batch, pure=True)
    # The limit keeps the compiled reader from being asked again after its end, when it would start anew.
    return islice(source.records(), header.record_count)


def _check_inside(header: BatchHeader, source: RecordSource) -> None:
    """Walk all records; their offsets must rise within the batch (by one, where the count leaves no gap)."""
    rising = starmap(lt, pairwise(chain((header.base_offset - 1,), source.offsets(), (header.next_offset,))))
    try:
        # A step of this loop is short: in between a thread lets others have the interpreter.
        while group := list(islice(rising, _AT_ONCE)):
            if not all(group):
                raise _unreadable(header, "its records' offsets don't rise from the first to the last")
    except source.DAMAGE as damage:
        raise _unreadable(header, str(damage)) from None


def _unreadable(header: BatchHeader, reason: str) -> OttlaError:
    return OttlaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the batch at offset {header.base_offset} can't be read: {reason}",
        hint=f"its producer wrote it so; to go on without it, seek to offset {header.next_offset}",
    )
