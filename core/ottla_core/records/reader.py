"""The records of a batch, read without trusting any of it.

A batch is checked to its last byte before its first record leaves. It is read whole or is CORRUPT_MESSAGE whole, and no
offset is ever skipped (rule 64). The check keeps no record. Records are parsed a second time when they are used, so
that a batch of many small ones costs the memory of its bytes, not thirty times as much. Keeping the parsed records
would cost more than it saves, because each record that waits is one more for the garbage collector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import BatchHeader, Buffer, check_stored, corrupt
from ottla_core.records.record import RawRecord, RecordSource
from ottla_core.records.twins import twin
from ottla_core.records.walk import DamagedRecordsError, walk_source, without_codec


class BatchRecords:
    """The records of one sound batch, in offset order. They may be iterated several times."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: RecordSource, count: int) -> None:
        self._source = source
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RawRecord]:
        return self._source.records()

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        """Return these fields of all records, a list for each field. It costs half as much as record by record.

        OFFSET, TIMESTAMP, KEY, VALUE and HEADERS of `ottla_core.records.record` are the numbers of fields.
        """
        return self._source.columns(*fields)


def read_records(batch: Buffer, *, pure: bool = False) -> BatchRecords:
    """Return the records of exactly one batch, in offset order, including control records (`BatchHeader.is_control`).

    With log-append time every record has the batch's maxTimestamp. Everything is raised here, nothing while iterating:
    CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE.
    """
    header = check_stored(batch)
    if header.size_bytes != len(batch):
        raise corrupt(f"{len(batch) - header.size_bytes} bytes follow a batch of {header.size_bytes}")
    return sound_records(header, batch, pure=pure)


def sound_records(header: BatchHeader, batch: Buffer, *, pure: bool = False) -> BatchRecords:
    """Do as `read_records` does, for the batch of `header`, which has passed `check_stored`: its bytes are what was
    written."""
    plain, records = without_codec(header, batch)
    source = twin(pure=pure).source(plain, records)
    try:
        walk_source(source, header.base_offset, header.next_offset)
    except UnicodeDecodeError:
        # A header's name is not UTF-8. Only the pure twin reads it as Java does.
        return sound_records(header, batch, pure=True)
    except DamagedRecordsError as damage:
        raise OttlaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch at offset {header.base_offset} can't be read: {damage}",
            hint=f"the producer wrote a malformed batch; to skip it, seek to offset {header.next_offset}",
        ) from None
    return BatchRecords(source, header.record_count)
