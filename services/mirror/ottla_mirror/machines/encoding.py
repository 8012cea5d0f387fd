"""Records that are encoded again for a copy get batches of their own, which note the records' offsets in the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla_core.records.batch import HEADER_SIZE, BatchHeader, read_header
from ottla_core.records.compression import Codec
from ottla_core.records.record import Header
from ottla_core.records.twins import new_builder

NO_TIMESTAMP: Final = -1


class Run(NamedTuple):
    """A run is records with adjacent offsets in the source, which are adjacent in the target as well."""

    first: int
    length: int

    @property
    def next(self) -> int:
        """This is the offset after the last one."""
        return self.first + self.length

    def after(self, length: int) -> Run:
        """Return the run without its first `length` records."""
        return Run(self.first + length, self.length - length)


class EncodedBatch:
    """A batch in the making, of at most `max_bytes` before compression; `runs` are its records' offsets in the source.

    Either all of its records have timestamps, or none has. -1 stands for none: with a time of 0, retention would delete
    the copy at once.
    """

    __slots__ = ("_builder", "_has_timestamps", "runs")

    def __init__(self, max_bytes: int) -> None:
        self.runs: list[Run] = []
        self._builder = new_builder(max_bytes)
        self._has_timestamps = True

    def append(
        self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> bool:
        """Add a record. Return False if another batch has to begin with it. The first record always fits."""
        has_timestamp = timestamp_ms >= 0
        if self.runs and has_timestamp != self._has_timestamps:
            return False
        if not self._builder.append(timestamp_ms if has_timestamp else 0, key, value, headers):
            return False
        self._has_timestamps = has_timestamp
        if self.runs and self.runs[-1].next == offset:
            self.runs[-1] = Run(self.runs[-1].first, self.runs[-1].length + 1)
        else:
            self.runs.append(Run(offset, 1))
        return True

    def seal(self, codec: Codec) -> tuple[BatchHeader, memoryview]:
        """Return the batch's header, and its records, compressed by the header's codec."""
        batch = self._builder.seal(codec)
        header = read_header(batch)
        if not self._has_timestamps:  # each record has its difference from the first one, which is 0
            header = header._replace(base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP)
        return header, memoryview(batch)[HEADER_SIZE:]
