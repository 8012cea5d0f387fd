"""`ottla log index`: rebuilds both indexes of segments from the headers of their batches (rule 59), and for a whole log
also the list of aborted transactions, without which Kafka would show their records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla_broker.storage.disk import Disk
from ottla_broker.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.producer_history import ProducerHistory
from ottla_broker.storage.segment import Segment
from ottla_broker.storage.swap import INDEX_SUFFIXES
from ottla_stack.log_tools.directory_lock import locked
from ottla_stack.log_tools.log_files import LogFiles, reading


class Rebuilt(NamedTuple):
    """`next_offset` is -1 if the file does not end with a whole batch. Then its indexes cover the part before."""

    file: Path
    next_offset: int
    offset_entries: int
    time_entries: int


def rebuild(log: LogFiles) -> Iterator[Rebuilt]:
    """Rebuild each segment's indexes, fsynced. A segment of a few kilobytes has none. Raises FatalError or OSError."""
    directory, disk = log.directory, Disk(log.directory)
    ranges: list[tuple[Segment, int]] = []
    with locked(directory.resolve().parent):
        for path in log.segments:
            with reading(path):
                segment = Segment(directory, int(path.stem), disk, LogConfig(), time.time_ns() // 1_000_000)
                segment.size_bytes = path.stat().st_size
                indexes = [path.with_suffix(suffix) for suffix in INDEX_SUFFIXES]
                for index in indexes:
                    index.unlink(missing_ok=True)
                next_offset = segment.rebuild_indexes()
                segment.sync(sealed=True)
                disk.files.forget(path)
                sizes = [index.stat().st_size if index.exists() else 0 for index in indexes]
                ranges.append((segment, next_offset))
                yield Rebuilt(path, next_offset, sizes[0] // OFFSET_ENTRY.size, sizes[1] // TIME_ENTRY.size)
        if log.is_whole and all(end >= 0 for _, end in ranges):
            ProducerHistory(directory, disk).restore(ranges, [], 0, 0)
        disk.sync_directory(directory)
