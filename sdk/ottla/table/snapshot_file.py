"""The file of a table's snapshot: records as they are in the topic, and how far they reflect it.

In this order: magic with the version, length of the head, head as JSON, record batches, CRC-32C of everything before.
The file is replaced whole, so a process that is killed leaves the previous one. Keys and values are bytes, whatever
deserializers the table has.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from tempfile import NamedTemporaryFile
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from ottla_core.records.batch import LOG_OVERHEAD, extend_crc
from ottla_core.records.reader import read_records
from ottla_core.records.record import Header, RawRecord
from ottla_core.records.twins import new_builder

_MAGIC: Final = b"ottla table snapshot 2\n"
_U32: Final = Struct(">I")
_PIECE: Final = 1 << 20
_LEFT_OVER_S: Final = 86_400.0

Stored: TypeAlias = bytes | tuple[bytes, tuple[Header, ...]]
"""A value, with its headers only if it has any: a million pairs cost the garbage collector time, bytes cost none."""


class Head(NamedTuple):
    """The topic of a snapshot, and how far the snapshot reflects it.

    `positions` has (next offset, leader epoch of the record before it or -1) by partition; `first_offsets` is where
    each log began when the table began to read it. Everything that was in the topic at `as_of_ms` is reflected.
    """

    topic_id: str
    read_committed: bool
    first_offsets: Mapping[int, int]
    positions: Mapping[int, tuple[int, int]]
    as_of_ms: int


def write_snapshot(path: Path, head: Head, latest: Mapping[bytes, Stored]) -> None:
    """Replace the file. If it raises OSError, the file is unchanged."""
    with NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp", delete=False) as file:
        try:
            crc = 0
            for piece in _pieces(head, latest):
                file.write(piece)
                crc = extend_crc(crc, piece)
            file.write(_U32.pack(crc))
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    for left_over in path.parent.glob(f"{path.name}.*.tmp"):  # a process was killed
        with suppress(FileNotFoundError):
            if left_over.stat().st_mtime < time.time() - _LEFT_OVER_S:
                left_over.unlink()


@contextmanager
def open_snapshot(path: Path) -> Iterator[tuple[Head, Iterator[Iterator[RawRecord]]]]:
    """Return the head, and the records batch by batch, after checking every byte.

    Raises FileNotFoundError, OSError, or ValueError for a file that is torn or no snapshot.
    """
    if path.exists() and not path.is_file():
        raise ValueError("the snapshot is not a regular file")
    with path.open("rb") as file:
        _check(file)
        (length,) = _U32.unpack(file.read(_U32.size))
        yield _head(file.read(length)), _batches(file)


def _head(text: bytes) -> Head:
    topic_id, read_committed, first_offsets, positions, as_of_ms = json.loads(text)
    first_by_partition = {int(n): offset for n, offset in first_offsets.items()}
    by_partition = {int(n): (offset, epoch) for n, (offset, epoch) in positions.items()}
    return Head(topic_id, read_committed, first_by_partition, by_partition, as_of_ms)


def _pieces(head: Head, latest: Mapping[bytes, Stored]) -> Iterator[bytes]:
    text = json.dumps(head).encode()
    yield _MAGIC + _U32.pack(len(text)) + text
    builder = new_builder(_PIECE)
    for key, stored in latest.items():
        value, headers = stored if isinstance(stored, tuple) else (stored, ())
        if not builder.append(0, key, value, headers):
            yield builder.seal()
            builder = new_builder(_PIECE)
            builder.append(0, key, value, headers)
    if builder.record_count:
        yield builder.seal()


def _check(file: BinaryIO) -> None:
    """Check the file, and move behind the magic."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("the file is not a snapshot, or has another version")
    crc, left = extend_crc(0, _MAGIC), os.fstat(file.fileno()).st_size - len(_MAGIC) - _U32.size
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        crc, left = extend_crc(crc, piece), left - len(piece)
    if file.read() != _U32.pack(crc):
        raise ValueError("the snapshot is damaged: its CRC does not match its bytes")
    file.seek(len(_MAGIC))


def _batches(file: BinaryIO) -> Iterator[Iterator[RawRecord]]:
    """Iterate over the batches. Each record's offset is -1: offsets are not kept."""
    while len(start := file.read(LOG_OVERHEAD)) == LOG_OVERHEAD:  # otherwise it is the CRC
        batch = start + file.read(int.from_bytes(start[8:], "big"))
        yield ((-1, 0, key, value, headers) for _, _, key, value, headers in read_records(batch))
