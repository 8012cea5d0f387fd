"""Says what is wrong with the bytes of a segment, or with an index beside it, and at which position."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log_config import MAX_INT32
from ottla_broker.storage.scan import crc_in_pieces
from ottla_core.plural import counted
from ottla_core.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAX_CODEC,
    BatchHeader,
    read_header,
)

_ENTRIES_AT_ONCE: Final = 4096
_NO_ENTRY: Final = 1 << 63


class Damage(NamedTuple):
    """`position` is in bytes from the start of the file. `offset` is the one that belongs there, or -1."""

    path: Path
    position: int
    offset: int
    problem: str
    remedy: str


def stored_crc(file: DataFile, position: int, header: BatchHeader) -> int:
    """Return the CRC of the batch at `position`, with a megabyte of it in memory at a time."""
    return crc_in_pieces(file, position + ATTRIBUTES_OFFSET, position + header.size_bytes)


def bytes_problem(file: DataFile, position: int, end: int) -> str:
    """Return why no sound batch begins at `position` of a file of `end` bytes, or an empty text if one does."""
    rest = end - position
    data = file.read(position, HEADER_SIZE)
    if not any(data):
        return f"{rest} bytes that begin with zeroes are not a batch"
    if rest < HEADER_SIZE or len(data) < HEADER_SIZE:
        return f"{counted(rest, 'byte')} left where a batch has a header of {HEADER_SIZE}"
    header = read_header(data)
    if header.magic != MAGIC:
        return f"the magic of a batch is {header.magic}, not {MAGIC}"
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        return f"the length of a batch is {header.batch_length}"
    if header.base_offset < 0:
        return f"a batch begins at offset {header.base_offset}"
    if header.size_bytes > rest:
        return f"a batch of {header.size_bytes} bytes is cut off after {rest}"
    crc = stored_crc(file, position, header)
    if crc != header.crc:
        return f"the CRC of a batch is {crc:#010x}, but its header has {header.crc:#010x}"
    return f"the last offset delta of a batch is {header.last_offset_delta}" if header.last_offset_delta < 0 else ""


def header_problem(header: BatchHeader, segment_offset: int, next_offset: int, leader_epoch: int) -> str:
    """Return why a batch whose CRC is right can't lie in this segment after those before it, or an empty text if it
    can."""
    if header.base_offset < next_offset:
        before = (
            f"batches before it end at {next_offset - 1}"
            if next_offset > segment_offset
            else "the file's name has a later one"
        )
        return f"a batch begins at offset {header.base_offset}, but {before}"
    if header.last_offset - segment_offset > MAX_INT32:
        return f"a batch ends at offset {header.last_offset}, too far from the file's name"
    if header.leader_epoch < leader_epoch:
        return f"a batch has the leader epoch {header.leader_epoch} and comes after epoch {leader_epoch}"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return (
            f"a batch of {counted(header.record_count, 'record')} has {counted(header.last_offset_delta + 1, 'offset')}"
        )
    return f"a batch has the codec {header.codec}" if header.codec > MAX_CODEC else ""


def read_entries(path: Path, layout: struct.Struct) -> Iterator[tuple[int, int]]:
    """Yield the entries of an index, without the zeroes that Kafka leaves after the last one while it is in use."""
    file, size = DataFile(path), layout.size
    for at in range(0, file.size_bytes(), _ENTRIES_AT_ONCE * size):
        data = file.read(at, _ENTRIES_AT_ONCE * size)
        for first, second in layout.iter_unpack(data[: len(data) // size * size]):
            if first == second == 0:
                return
            yield first, second


class IndexCheck:
    """Compares the entries of an index with the batches of its segment, both in the order of the file.

    `due` is the second field of the next entry: a position, or a relative offset. The caller hands over the first batch
    at or after it.
    """

    def __init__(self, path: Path, layout: struct.Struct) -> None:
        self.path: Final = path
        self.problem = ""
        self.position = 0
        self.due = _NO_ENTRY
        self._size: Final = layout.size
        self._first = -1
        self._entries = read_entries(path, layout) if path.exists() else iter(())
        self._advance()

    def compare(self, second: int, first: int) -> None:
        """Compare a batch whose second field is at or after `due`. `first` is the first field of its entry."""
        while self.due <= second:
            if (self._first, self.due) != (first, second):
                self._fail(f"entry ({self._first}, {self.due}) names a batch that is not in the segment")
            else:
                self.position += self._size
                self._advance()

    def finish(self, *, has_grown: bool) -> None:
        """Finish, because no batch is left. `has_grown` says that some were appended since, to which entries may
        belong."""
        if self.due != _NO_ENTRY and not has_grown:
            self._fail(f"entry ({self._first}, {self.due}) names a batch that is not in the segment")
        rest = self.path.stat().st_size % self._size if self.path.exists() and not self.problem else 0
        if rest:
            self.position = self.path.stat().st_size - rest
            self._fail(f"it ends with {counted(rest, 'byte')} of an entry of {self._size}")

    def _advance(self) -> None:
        before = self._first, self.due if self.position else -1
        self._first, self.due = next(self._entries, (self._first, _NO_ENTRY))
        if self.due != _NO_ENTRY and (self._first <= before[0] or self.due <= before[1]):
            self._fail(f"entry ({self._first}, {self.due}) comes after {before}")

    def _fail(self, problem: str) -> None:
        self.problem, self.due = problem, _NO_ENTRY
