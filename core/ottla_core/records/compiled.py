"""The compiled twin: aiokafka's builder and reader in C, the only module that touches that library.

It appends and it walks records. Compression, headers and CRCs are ottla's own code. Its import costs 25 to 60 ms (the
package pulls in asyncio), so `twins` imports this module when the first batch is built or read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record._crecords.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ottla_core.records.batch import HEADER_SIZE, MAGIC, NO_PRODUCER_ID, BatchHeader, Buffer, read_header, write_header
from ottla_core.records.builder import RecordBatchBuilder, check_timestamp
from ottla_core.records.record import MAX_TIMESTAMP_MS, Header, Headers, RawRecord

_NAMES: Final = ("offset", "timestamp", "key", "value", "headers")
_fields = attrgetter(*_NAMES)
_getters: Final = tuple(map(attrgetter, _NAMES))
_AT_ONCE: Final = 1_000

# The C code looks for the end of the buffer only before a varint, and reads up to 10 bytes past it where one is cut
# off, before it notices. So it never gets a buffer with foreign memory behind its end.
_PADDING: Final = bytes(32)

_NO_HEADERS: Final[Headers] = []  # it takes only a list, and does not keep it

_UNUSED_BYTES: Final = 7
"""The size of a record without key, value and headers, whose timestamp and offset do not differ from the first ones."""


class _Drafts(NamedTuple):
    """What ended drafts hold of a batch."""

    records: tuple[memoryview, ...] = ()
    size_bytes: int = 0
    record_count: int = 0
    max_timestamp: int = -1


class CompiledBuilder(RecordBatchBuilder):
    """A batch of one or several drafts. The C code can't raise a draft's limit, so a batch grows by another draft.

    A draft writes timestamps as differences to that of its own first record. So a further draft begins with a record
    that is there only for its timestamp, the first one of the batch. The bytes of this record are left out in the end.

    The C code counts the records of a draft, and tells the count only in the header of the ended draft.
    """

    __slots__ = ("_append", "_draft", "_earlier")

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._earlier = _Drafts()  # those before this draft
        self._draft = _new_draft(max_bytes)
        # It is None while it is called, and so after an interrupted call.
        self._append: Callable[..., object] | None = self._draft.append

    @property
    def size_bytes(self) -> int:
        return int(self._draft.size()) + self._earlier.size_bytes - self._unused_bytes

    @property
    def takes_records(self) -> bool:
        return self._append is not None

    @property
    def _unused_bytes(self) -> int:
        """The bytes at the beginning of this draft that are no part of the batch."""
        return _UNUSED_BYTES if self._earlier.records else 0

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bool:
        if not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
            check_timestamp(timestamp_ms)
        append, number = self._append, self.record_count
        if append is None:
            return False
        self._append = None
        if append(number, timestamp_ms, key, value, list(headers) if headers else _NO_HEADERS) is None:
            self._append = append
            return False
        self.record_count, self._append = number + 1, append
        return True

    def grow(self, max_bytes: int) -> None:
        self._append = None
        ended, header = self._ended()
        draft = _new_draft(max_bytes - ended.size_bytes + _UNUSED_BYTES)
        draft.append(0, header.base_timestamp, None, None, _NO_HEADERS)
        # No call comes in between, so an interrupt leaves all of it or nothing.
        self._earlier, self._draft, self._append = ended, draft, draft.append

    def close(self) -> int:
        if self._append is None:
            self.record_count = self._ended()[0].record_count
        return self.record_count

    def _finish(self) -> tuple[BatchHeader, bytes]:
        drafts, header = self._ended()
        count = self.record_count = drafts.record_count
        whole = header._replace(record_count=count, last_offset_delta=count - 1, max_timestamp=drafts.max_timestamp)
        return whole, b"".join(drafts.records)

    def _ended(self) -> tuple[_Drafts, BatchHeader]:
        """Return all drafts as they are with this one ended, and its header. This changes nothing, but the draft takes
        no further record."""
        draft, earlier, unused_bytes = self._draft.build(), self._earlier, self._unused_bytes
        header = read_header(draft)
        records = memoryview(draft)[HEADER_SIZE + unused_bytes :]
        return _Drafts(
            (*earlier.records, records),
            earlier.size_bytes + len(records),
            earlier.record_count + header.record_count - bool(unused_bytes),
            max(earlier.max_timestamp, header.max_timestamp),
        ), header


def _new_draft(max_bytes: int) -> Any:
    # It has no codec, is not transactional and has no producer. Its limit is the first size that does not fit.
    return DefaultRecordBatchBuilder(MAGIC, 0, 0, NO_PRODUCER_ID, -1, -1, max_bytes + 1)


class CompiledSource:
    """A RecordSource in C: it walks 18 M records/s, or returns 7 M/s as tuples."""

    # It raises the latter two because a length near 2**63 overflows its bounds check, and no memory can be had for it.
    DAMAGE: ClassVar[tuple[type[Exception], ...]] = (CorruptRecordException, OverflowError, MemoryError)

    __slots__ = ("_batch", "_count")

    def __init__(self, header: BatchHeader, records: Buffer) -> None:
        self._count = header.record_count
        self._batch = memoryview(b"".join((write_header(header), records, _PADDING)))[: -len(_PADDING)]

    def each(self, *fields: int) -> Iterator[Any]:
        return map(attrgetter(*map(_NAMES.__getitem__, fields)), DefaultRecordBatch(self._batch))

    def records(self) -> Iterator[RawRecord]:
        return map(_fields, self._parsed())

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        # A field costs half as much from the C objects as from a tuple of all five, and few of the objects live at a
        # time.
        columns: list[list[Any]] = [[] for _ in fields]
        parsed = self._parsed()
        while records := list(islice(parsed, _AT_ONCE)):
            for field, column in zip(fields, columns, strict=True):
                column += map(_getters[field], records)
        return columns

    def _parsed(self) -> Iterator[Any]:
        # Because of the limit, the C reader is not asked again after its end, when it would start from the beginning.
        return islice(DefaultRecordBatch(self._batch), self._count)
