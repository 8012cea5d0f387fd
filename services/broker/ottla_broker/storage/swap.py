"""Cleaned files in the place of the segments that they were made of (rule 62), whatever interrupts it.

    <base>.log.cleaned  .index.cleaned  .timeindex.cleaned    written and fsynced; a start removes them
    <base>.log.swap     .index.swap     .timeindex.swap       decided; a start finishes it
    <base>.log          .index          .timeindex            done, and the segments in their place are gone

So does <base>.txnindex. The log's name alone tells how far a swap has come, and is the last to be taken: an index that
is lost on the way is made again. A cleaned segment
ends where those that it replaces did, which is how a start knows them. What is decided is on the disk before they go:
not every file system keeps the order of names.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla_broker.storage.disk import DataFile, Disk
from ottla_broker.storage.scan import headers
from ottla_broker.storage.transactions import aborted_index

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

BESIDE_LOG: Final = (*INDEX_SUFFIXES, aborted_index.SUFFIX)
"""Suffixes of the files that move with a segment."""

_KINDS: Final = (*BESIDE_LOG, LOG_SUFFIX)
_SWAPPED: Final = re.compile(r"\d{20}\.log\.swap")
_logger = logging.getLogger(__name__)


def segment_path(directory: Path, base_offset: int) -> Path:
    """The path of the segment that begins at `base_offset`."""
    return directory / f"{base_offset:020d}{LOG_SUFFIX}"


def path_of(log_path: Path, state: str) -> Path:
    """The path of a cleaned file, in the state CLEANED or SWAP."""
    return log_path.with_name(log_path.name + state)


def decide(log_path: Path, like: Path, disk: Disk) -> None:
    """Cleaned files become those of a swap, the file time that of `like`. Raises OSError or KAFKA_STORAGE_ERROR."""
    with suppress(FileNotFoundError):  # retention takes it meanwhile
        time_ns = like.stat().st_mtime_ns
        os.utime(path_of(log_path, CLEANED), ns=(time_ns, time_ns))  # retention, and idle producers, count from it
    for kind in _KINDS:
        path = log_path.with_suffix(kind)
        if kind == LOG_SUFFIX or path_of(path, CLEANED).exists():
            path_of(path, CLEANED).rename(path_of(path, SWAP))
    disk.sync_directory(log_path.parent)


def withdraw(log_path: Path, disk: Disk) -> None:
    """Remove what was cleaned, decided or not, the log first. Raises OSError or KAFKA_STORAGE_ERROR."""
    for kind in reversed(_KINDS):
        for state in (SWAP, CLEANED):
            path_of(log_path.with_suffix(kind), state).unlink(missing_ok=True)
    disk.sync_directory(log_path.parent)


def remove_cleaned(directory: Path) -> None:
    """Remove the files of a clean that did not finish. Raises OSError."""
    for path in directory.glob(f"*{CLEANED}"):
        path.unlink(missing_ok=True)


def finish_all(directory: Path, names: Collection[str]) -> None:
    """At a start: the swaps that were decided; a torn one is left, as it is none. Raises OSError."""
    for name in sorted(filter(_SWAPPED.fullmatch, names)):
        log_path = directory / name.removesuffix(SWAP)
        end_offset = _end_of(directory / name)
        if end_offset is None:
            _logger.warning("%s is incomplete; keeping the segments that it would have replaced", directory / name)
            continue
        base_offset = int(log_path.stem)
        aborted = log_path.with_suffix(aborted_index.SUFFIX)
        # It can't be made again, as hints can, and may have its name already.
        stays = "" if path_of(aborted, SWAP).name in names else aborted.name
        for other in names:
            stem, _, kind = other.partition(".")
            if f".{kind}" in _KINDS and stem.isdecimal() and base_offset <= int(stem) < end_offset and other != stays:
                (directory / other).unlink(missing_ok=True)
        take_names(log_path)


def take_names(log_path: Path) -> None:
    """The files of a swap become those of the segment; the segments in its place are gone."""
    for kind in _KINDS:
        path = log_path.with_suffix(kind)
        with suppress(FileNotFoundError):  # a short segment has no indexes
            path_of(path, SWAP).rename(path)


def _end_of(path: Path) -> int | None:
    """The offset after the last batch; None where batches don't end with the file."""
    file = DataFile(path)
    size_bytes, end, next_offset = file.size_bytes(), 0, None
    for position, header in headers(file, 0, size_bytes):
        end, next_offset = position + header.size_bytes, header.next_offset
    return next_offset if end == size_bytes else None
