"""The aborted transactions whose markers lie in one segment: what readers of committed records have to leave out.

`<base>.txnindex` in Kafka's format, big-endian, an entry of 34 bytes for each, in the order of the markers:

    version int16 = 0 | producer id int64 | first offset int64 | last offset int64 | last stable offset int64

The index is no hint: a missing entry shows readers records that were aborted. New entries gather in memory, as those of
the other indexes do, and each flush of the segment writes and fsyncs them. A start that does not trust a segment
rebuilds its index from the producers before it (module producer_history). A start that trusts it reads nothing of it,
because entries are checked when they are read. Any thread may read beside those that write: everything lies in one
tuple, and the file only changes behind the entries that the tuple counts. A thread that replaces the tuple holds a
lock, even a reader that loads it, which might otherwise overwrite an entry that was added in the meantime.

Source: org.apache.kafka.storage.internals.log.{TransactionIndex,AbortedTxn}.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import EBADMSG, ENOENT
from pathlib import PurePath
from threading import RLock
from typing import Final, NamedTuple

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log_config import MAX_INT64

SUFFIX: Final = ".txnindex"
ENTRY: Final = struct.Struct(">hqqqq")

_VERSION: Final = 0
_CHUNK_BYTES: Final = 4096
_AT_ONCE: Final = 1000


class _Entries(NamedTuple):
    """How many entries lie in the file, and the packed ones behind them."""

    stored: int
    pending: bytes


_NONE: Final = _Entries(0, b"")


class AbortedIndex:
    __slots__ = ("_changing", "_ending", "_entries", "_is_unnamed", "_is_unsynced", "_log_path")

    def __init__(self, log_path: PurePath, ending: str = "") -> None:
        """Create the index. `ending` ends the file's name while a swap is not done (module swap), which may rename the
        file at any moment."""
        self._log_path: Final = log_path
        self._ending: Final = ending
        self._entries: _Entries | None = None
        self._is_unsynced = False
        """The file was changed and has not been synced since. A power cut may lose entries, or bring back entries that
        were cut off."""
        self._is_unnamed = False
        """The file may be new, and its directory has not been synced since. A power cut may then remove the file."""
        self._changing: Final = RLock()

    def _path(self, ending: str) -> PurePath:
        return self._log_path.with_suffix(SUFFIX + ending)

    def _loaded(self) -> _Entries:
        if self._entries is not None:
            return self._entries
        with self._changing:
            if self._entries is None:
                file = self._open()
                self._entries = _NONE if file is None else _Entries(file.size_bytes() // ENTRY.size, b"")
            return self._entries

    def _open(self) -> DataFile | None:
        for ending in {self._ending: None, "": None}:
            with suppress(FileNotFoundError):
                return files.open_file(self._path(ending))
        return None

    @property
    def has_whole_entries(self) -> bool:
        """It tells whether the file ends with a whole entry, by its size alone. Raises OSError."""
        file = self._open()
        return file is None or file.size_bytes() % ENTRY.size == 0

    def entries(self, start: int = 0) -> Iterator[AbortedTransaction]:
        """Iterate over the transactions that ended at or after `start`.

        Raises OSError, while iterating too: EBADMSG for an entry that can't be right.
        """
        stored, pending = self._loaded()
        if stored:
            file = self._existing()
            before = -1
            for number in range(_first_at(file, stored, start), stored, _AT_ONCE):
                found = _unpacked(file.read(number * ENTRY.size, min(_AT_ONCE, stored - number) * ENTRY.size))
                _check(found, before, file)
                yield from found
                before = found[-1].last_offset if found else before
        yield from (entry for entry in _unpacked(pending) if entry.last_offset >= start)

    def _existing(self) -> DataFile:
        file = self._open()
        if file is None:
            raise FileNotFoundError(ENOENT, "the file is gone", str(self._path(self._ending)))
        return file

    def collect(self, start: int, end: int, found: list[AbortedTransaction]) -> bool:
        """Add to `found` the transactions that overlap the records from `start` on and before `end`. Return True if
        later segments can't have more of them. Raises OSError."""
        for entry in self.entries(start):
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return True
        return False

    def add(self, aborted: AbortedTransaction) -> None:
        """Add a transaction that has ended behind all others."""
        with self._changing:
            stored, pending = self._loaded()
            self._entries = _Entries(stored, pending + packed((aborted,)))
        if len(pending) >= _CHUNK_BYTES:
            # it stays in memory and is written with the next one; other files report a full disk
            with suppress(OSError):
                self._write()

    def replace_from(self, offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace the transactions that ended at or after `offset` by these, and write them to the file. Readers see
        all of this or nothing. Raises OSError.

        If the whole segment lies at or after `offset`, the file's content is ignored: a power cut may have left
        anything there.
        """
        with self._changing:
            stored, pending = self._loaded()
            is_rebuilt = offset <= int(self._log_path.stem)
            stored = _first_at(self._existing(), stored, offset) if stored and not is_rebuilt else 0
            kept = (entry for entry in _unpacked(pending) if entry.last_offset < offset)
            self._entries = _Entries(stored, packed(kept) + packed(aborted))
            if self._open() is not None:
                self._write().truncate(self._loaded().stored * ENTRY.size)
            else:
                self.write()

    def write(self) -> None:
        """Write what is in memory to the file. No file is created for no entries. Raises OSError."""
        if self._entries is not None and self._entries.pending:
            self._write()

    def sync(self, disk: Disk) -> None:
        """Write what is in memory, and fsync the file if it has changed. Raises OSError, or KAFKA_STORAGE_ERROR."""
        with self._changing:
            if not self._is_unsynced and not (self._entries and self._entries.pending):
                return
            file = self._write()
            # Entries that are written while the fsync runs need another one.
            is_unnamed = self._is_unnamed
            self._is_unsynced = self._is_unnamed = False
        try:
            disk.sync(file)
            if is_unnamed:
                disk.sync_directory(self._log_path.parent)
        except BaseException:
            # The disk may stay online, as it does without a free file descriptor. Then the next flush syncs again.
            with self._changing:
                self._is_unsynced, self._is_unnamed = True, self._is_unnamed or is_unnamed
            raise

    def _write(self) -> DataFile:
        with self._changing:
            stored, pending = self._loaded()
            file = files.open_file(self._path(self._ending), write=True, create=bool(pending))
            self._is_unsynced = True
            self._is_unnamed |= not stored
            file.write_all([pending], stored * ENTRY.size, len(pending))
            self._entries = _Entries(stored + len(pending) // ENTRY.size, b"")
        return file


def packed(aborted: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(ENTRY.pack(_VERSION, *entry) for entry in aborted)


def _first_at(file: DataFile, stored: int, offset: int) -> int:
    """Return the number of the file's first entry whose transaction ended at or after `offset`."""
    return bisect_left(range(stored), offset, key=lambda number: _last_offset(file, number))


def _check(found: list[AbortedTransaction], before: int, file: DataFile) -> None:
    """Raise OSError (EBADMSG) unless the entries can follow one that has ended at `before`."""
    for producer_id, first_offset, last_offset, _ in found:
        if producer_id < 0 or not 0 <= first_offset < last_offset or last_offset <= before:
            raise OSError(EBADMSG, f"{file.path.name} is damaged: its entries are invalid")
        before = last_offset


def _last_offset(file: DataFile, number: int) -> int:
    """Return the last offset of an entry of the file. An entry that has just been cut off sorts behind all others."""
    found = _unpacked(file.read(number * ENTRY.size, ENTRY.size))
    return found[0].last_offset if found else MAX_INT64


def _unpacked(data: bytes) -> list[AbortedTransaction]:
    whole = len(data) // ENTRY.size * ENTRY.size
    return [AbortedTransaction(*fields) for _, *fields in ENTRY.iter_unpack(data[:whole])]
