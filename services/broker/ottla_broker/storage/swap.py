"""A swap puts cleaned files in the place of the segments that they were made of (rule 62), whatever interrupts it.

A segment has up to four files, and a rename moves one. Several segments become one. So no single step of the file
system makes a swap, and a crash may come between any two. The names say how far a swap has come:

    <base>.log.cleaned  .index.cleaned  .timeindex.cleaned    written and fsynced; a start removes them
    <base>.log.swap     .index.swap     .timeindex.swap       decided; a start finishes it
    <base>.log          .index          .timeindex            done, and the segments in their place are gone

The same holds for <base>.txnindex. The log's name alone decides, and is the last to be changed: an index that is lost
on the way is rebuilt. A cleaned segment ends where its sources ended, and so a start knows which segments it replaces.
The decision is fsynced before a source goes, because not every file system keeps the order of names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import PurePath
from typing import Final

from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.scan import headers
from ottla_broker.storage.transactions import aborted_index

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

BESIDE_LOG: Final = (*INDEX_SUFFIXES, aborted_index.SUFFIX)
"""Suffixes of the files that move with a segment."""

# The log comes last, because its name decides.
_KINDS: Final = (*BESIDE_LOG, LOG_SUFFIX)
_SWAPPED: Final = re.compile(r"\d{20}\.log\.swap")
_logger = logging.getLogger(__name__)


def segment_path(directory: PurePath, base_offset: int) -> PurePath:
    """Return the path of the segment that begins at `base_offset`."""
    return directory / f"{base_offset:020d}{LOG_SUFFIX}"


def path_of(log_path: PurePath, state: str) -> PurePath:
    """Return the path of a cleaned file, in the state CLEANED or SWAP."""
    return log_path.with_name(log_path.name + state)


def decide(log_path: PurePath, like: PurePath, disk: Disk) -> None:
    """Make cleaned files those of a decided swap. The log's file time becomes that of `like`.

    Raises OSError or KAFKA_STORAGE_ERROR.
    """
    # If records have no timestamp, retention and the expiry of idle producers count from the time of the file. If that
    # were now, each clean would keep them for another period.
    with suppress(FileNotFoundError):  # retention may take it at any moment
        files.set_modified(path_of(log_path, CLEANED), files.modified_ns(like))
    for kind in _KINDS:
        path = log_path.with_suffix(kind)
        if kind == LOG_SUFFIX or files.exists(path_of(path, CLEANED)):
            files.rename(path_of(path, CLEANED), path_of(path, SWAP))
    # The decision is on disk before the caller deletes a source.
    disk.sync_directory(log_path.parent)


def withdraw(log_path: PurePath, disk: Disk) -> None:
    """Remove the cleaned files, whether the swap was decided or not, the log first. Raises OSError or
    KAFKA_STORAGE_ERROR.

    A swap without its log does not count, so a crash in between leaves nothing that a start would finish.
    """
    for kind in reversed(_KINDS):
        for state in (SWAP, CLEANED):
            files.remove_if_there(path_of(log_path.with_suffix(kind), state))
    disk.sync_directory(log_path.parent)


def remove_cleaned(directory: PurePath) -> None:
    """Remove the files of a clean that did not finish. Raises OSError."""
    for name in files.names_in(directory):
        if name.endswith(CLEANED):
            files.remove_if_there(directory / name)


def finish_all(directory: PurePath, names: Collection[str]) -> None:
    """Finish the swaps that were decided, at a start. A torn one is left alone, since it is no swap. Raises OSError."""
    for name in sorted(filter(_SWAPPED.fullmatch, names)):
        log_path = directory / name.removesuffix(SWAP)
        # The end says which segments it replaces. Without a whole file nothing is deleted.
        end_offset = _end_of(directory / name)
        if end_offset is None:
            _logger.warning("%s is incomplete; keeping the segments that it would have replaced", directory / name)
            continue
        base_offset = int(log_path.stem)
        aborted = log_path.with_suffix(aborted_index.SUFFIX)
        # The crash may have come between the rename of this index and that of the log. An index of aborted transactions
        # can't be made again from a cleaned segment, as the other indexes can, so it is not taken for a source's.
        stays = "" if path_of(aborted, SWAP).name in names else aborted.name
        for other in names:
            stem, _, kind = other.partition(".")
            if f".{kind}" in _KINDS and stem.isdecimal() and base_offset <= int(stem) < end_offset and other != stays:
                files.remove_if_there(directory / other)
        take_names(log_path)


def take_names(log_path: PurePath) -> None:
    """Give the files of a swap the names of the segment. The segments in its place are gone."""
    for kind in _KINDS:
        path = log_path.with_suffix(kind)
        with suppress(FileNotFoundError):  # a short segment has no indexes
            files.rename(path_of(path, SWAP), path)


def _end_of(path: PurePath) -> int | None:
    """Return the offset after the last batch, or None if the batches don't end with the file."""
    file = files.open_file(path)
    size_bytes, end, next_offset = file.size_bytes(), 0, None
    for position, header in headers(file, 0, size_bytes):
        end, next_offset = position + header.size_bytes, header.next_offset
    return next_offset if end == size_bytes else None
