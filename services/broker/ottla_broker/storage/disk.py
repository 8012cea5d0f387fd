"""File operations that keep their promise or say in words that they did not.

Nothing here knows what a log is.

- An append is all or nothing: what a full disk took of it is cut off again.
- A small file is replaced whole: temporary file, fsync, rename, fsync of the directory (rules 60 and 61).
- A full disk takes no append until there is room again; a reserve lets small files be replaced in the meantime.
- Where many files are new, or closed, one sync of the file system takes the place of one for each (`syncing_once`).
- A failed fsync is final. The kernel may have marked the pages clean, so a second fsync would succeed and lie: the
  data directory goes offline and stays so until the process ends (rule 20).
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EBADMSG, EDQUOT, EIO, EMFILE, ENFILE, ENOSPC, EPERM, EROFS
from pathlib import PurePath
from threading import Lock, local
from typing import Final

from ottla_broker.storage import files, soundness
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.reserve import NO_ROOM, Reserve
from ottla_core.errors import ErrorCode, OttlaError

DELETED_SUFFIX: Final = ".deleted"
TEMPORARY_SUFFIX: Final = ".tmp"

_logger = logging.getLogger(__name__)

_RESTART: Final = "check the disk, then restart the broker"
_NO_PERMISSION: Final = "let the user that runs the broker read and write everything in the data directory"
_HINTS: Final = {
    ENOSPC: "free space on the disk or shorten retention; the broker recovers as soon as there is room",
    EDQUOT: "raise the disk quota of the user that runs the broker, or shorten retention",
    EMFILE: "allow the process more open files (ulimit -n); the broker then recovers",
    ENFILE: "allow the machine more open files (sysctl fs.file-max); the broker then recovers",
    EACCES: _NO_PERMISSION,
    EPERM: _NO_PERMISSION,
    EROFS: "the file system is read-only, often after a disk error: see the kernel's log, then remount it",
    EBADMSG: "stop the broker and rebuild a damaged index with `ottla log index`, or move the partition's directory "
    "away: it is copied again",
    EIO: _RESTART,
}


def is_lack_of_room(error: OttlaError) -> bool:
    """Return whether the error was raised because the disk takes no more data now."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_ROOM


class OpenFiles:
    """The open files of segments. A file is opened when it is read or written, and the least recently used one is
    closed, so descriptors follow the logs in use.

    Linux also syncs what was written through a descriptor that has been closed since.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: OrderedDict[PurePath, DataFile] = OrderedDict()
        self._lock = Lock()
        self._renamed = 0

    def get(self, path: PurePath, *, write: bool = False) -> DataFile:
        """Return the open file, without creating one. Raises FileNotFoundError if the segment has just been deleted."""
        with self._lock:
            file = self._files.get(path)
            if file is not None and (file.takes_writes or not write):
                self._files.move_to_end(path)
                return file
            renamed = self._renamed
        file = files.open_file(path, write=write, create=False)  # opened without the lock, because the disk may be slow
        with self._lock:
            if renamed == self._renamed:  # otherwise another file may have the name by now
                self._keep(file)
        return file

    def create(self, path: PurePath) -> DataFile:
        """Return the file, open for writes. It is created if it does not exist."""
        file = files.open_file(path, write=True)
        with self._lock:
            self._renamed += 1
            self._keep(file)
        return file

    def _keep(self, file: DataFile) -> None:
        self._files[file.path] = file
        self._files.move_to_end(file.path)
        if len(self._files) > self._limit:
            self._files.popitem(last=False)

    def peek(self, path: PurePath) -> DataFile | None:
        """Return the file if it is open."""
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
            return file

    def forget(self, path: PurePath) -> None:
        """Close a file that was renamed away: the last reader frees its space."""
        with self._lock:
            self._renamed += 1
            self._files.pop(path, None)

    def forget_all(self) -> None:
        """Close every file, because the data directory is closed: the last reader of each frees its space."""
        with self._lock:
            self._renamed += 1
            self._files.clear()


class Disk:
    """The device under one data directory: whether it can still be trusted, its open files, and what is to unlink."""

    def __init__(self, path: PurePath, *, max_open_files: int = 256) -> None:
        self.path: Final = path
        self.failure = ""
        self.full = ""
        """It says why nothing is appended here. It is set once a reserve was kept and has been released."""
        self._reserve: Reserve | None = None
        self.files: Final = OpenFiles(max_open_files)
        self._discarded: deque[PurePath] = deque()
        self._put_off: Final = local()
        """`until_end` tells whether this thread's syncs wait for the end of its `syncing_once`. `replacements` are the
        small files that take their names then, each with its temporary file."""

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR once an fsync or the undoing of an append has failed (rule 20)."""
        if self.failure:
            raise OttlaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the data directory {self.path} is offline: {self.failure}",
                hint=_RESTART,
            )

    def keep_reserve(self) -> None:
        """Reject appends from now on while the disk is full, until there is room for a reserve again. For a thread."""
        self._reserve = self._reserve or Reserve(self.path)
        try:
            room = self._reserve.make()
        except OSError as error:
            _logger.warning(
                "can't create the reserve file in %s, which the broker needs once the disk is full: %s",
                self.path,
                error.strerror,
            )
            room = True
        self.full = "" if room else self.full or "there is too little room on the disk"

    def check_room(self) -> None:
        """Raise KAFKA_STORAGE_ERROR while the disk is full. The room that is left is for files other than logs."""
        if self.full:
            raise OttlaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the broker can't append until its disk has room: {self.full}",
                hint=_HINTS[ENOSPC],
            )

    def fail(self, doing: str, error: OSError) -> OttlaError:
        """Take the directory offline, and return the error to raise."""
        self.failure = self.failure or f"{doing} failed with {error.strerror or error}"
        soundness.withdraw(self.path)
        return OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the data directory {self.path} goes offline: {doing} failed with {error.strerror or error}",
            hint=_RESTART,
        )

    def error(self, doing: str, error: OSError) -> OttlaError:
        """Return the error to raise for an OSError that is not a failed fsync. Only an error of the device (EIO) takes
        the directory offline."""
        if error.errno == EIO:
            return self.fail(doing, error)
        self._is_full(error)
        hint = _HINTS.get(error.errno or 0, "see the kernel's log; the broker recovers when the cause is gone")
        return OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{doing} failed: {error.strerror or error}", hint=hint)

    def append(self, file: DataFile, buffers: Sequence[bytes | memoryview], position: int, size_bytes: int) -> None:
        """Write `size_bytes` at `position`, the file's end. If it fails, leave the file as it was and raise
        KAFKA_STORAGE_ERROR."""
        try:
            file.write_all(buffers, position, size_bytes)
        except BaseException as error:
            self.shorten(file, position)
            if isinstance(error, OSError):
                raise self.error(f"an append to {file.path} (none of it was kept)", error) from error
            raise

    def shorten(self, file: DataFile, end: int) -> None:
        """Cut off a failed append. If the next append were shorter, the rest could pass for real batches."""
        try:
            file.truncate(end)
        except OSError as error:
            raise self.fail(f"undoing an append to {file.path.name}", error) from error

    @contextmanager
    def syncing_once(self) -> Iterator[None]:
        """Make what this thread syncs inside the block durable by one sync at the end of the block, and not before.

        The sync also waits for everything else that is to be written to the file system. A small file that replaces
        another takes its name after that sync, and a second sync makes the names last. So a crash leaves the former
        file or the new one, and never a torn one.
        """
        self._put_off.until_end, self._put_off.replacements = files.SYNCS_FILE_SYSTEMS, {}
        try:
            yield
        finally:
            put_off, self._put_off.until_end = self._put_off.until_end, False
        if put_off:
            self._sync_file_system()
            self._replace_put_off()

    def _replace_put_off(self) -> None:
        replacements: dict[PurePath, PurePath] = self._put_off.replacements
        for path, temporary in replacements.items():
            try:
                files.rename(temporary, path)
            except OSError as error:
                raise self.error(f"writing {path}", error) from error
        if replacements:
            self._sync_file_system()

    def _sync_file_system(self) -> None:
        try:
            files.sync_file_system(self.path)
        except OSError as error:
            report = self.error if error.errno in (*NO_ROOM, EMFILE, ENFILE) else self.fail
            raise report(f"syncing the file system of {self.path}", error) from error

    @property
    def _syncs_later(self) -> bool:
        return getattr(self._put_off, "until_end", False)

    def sync(self, file: DataFile) -> None:
        """fsync the data of a file. If that fails, the directory is offline."""
        if self._syncs_later:
            return
        try:
            file.sync()
        except OSError as error:
            raise self.fail(f"fsync of {file.path.name}", error) from error

    def sync_directory(self, path: PurePath) -> None:
        """fsync the names in a directory. If that fails, the data directory is offline.

        After a lack of descriptors it stays online and the fsync may be tried again: nothing was synced, so no page was
        marked clean.
        """
        if self._syncs_later:
            return
        try:
            files.sync_names(path)
        except OSError as error:
            if error.errno in (EMFILE, ENFILE):
                raise self.error(f"fsync of {path.name}", error) from error
            raise self.fail(f"fsync of {path.name}", error) from error

    def replace_file(self, path: PurePath, content: str | bytes) -> None:
        """Write a small file whole or not at all. It is fsynced when this returns (rules 60 and 61).

        Where a file system allocates late, its fsync reports a lack of room. The new file is then removed, and may be
        written again. Any other fsync that fails takes the directory offline.
        """
        try:
            try:
                self._write_anew(path, content)
            except OSError as error:
                if not self._is_full(error):
                    raise
                self._write_anew(path, content)  # in the room of the released reserve
        except OSError as error:
            raise self.error(f"writing {path}", error) from error
        self.sync_directory(path.parent)

    def _is_full(self, error: OSError) -> bool:
        """Note that the disk is full if the error says so. Return whether releasing the reserve has just made room."""
        if self._reserve is None or error.errno not in NO_ROOM:
            return False
        self.full = self.full or error.strerror or str(error)
        return self._reserve.release()

    def _write_anew(self, path: PurePath, content: str | bytes) -> None:
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        data = content.encode() if isinstance(content, str) else content
        try:
            file = files.open_empty(temporary)
            try:
                file.write_all([data], 0, len(data))
                self._sync_new(file, path)
            finally:
                # A traceback would keep it open, and with it the room that it takes after it was removed.
                file.close()
            if self._syncs_later and files.exists(path):
                self._put_off.replacements[path] = temporary
            else:
                files.rename(temporary, path)
        except OSError:
            with suppress(OSError):
                files.remove_if_there(temporary)
            raise

    def _sync_new(self, file: DataFile, path: PurePath) -> None:
        if self._syncs_later:
            return
        try:
            file.sync()
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                raise
            raise self.fail(f"fsync of {path.name}", error) from error

    def discard(self, path: PurePath) -> None:
        """Rename a file away now. `unlink_discarded` frees its space later."""
        doomed = path.with_name(path.name + DELETED_SUFFIX)
        files.rename(path, doomed)
        self.files.forget(path)
        self._discarded.append(doomed)

    def unlink_discarded(self) -> int:
        """Unlink the discarded files, and return how many. For a thread: a gigabyte takes a file system tens of
        milliseconds.

        A file that can't be unlinked is tried again at the next call.
        """
        count, kept = 0, list[PurePath]()
        with suppress(IndexError):  # another thread may take the last file
            while True:
                path = self._discarded.popleft()
                try:
                    files.remove_if_there(path)
                    count += 1
                except OSError as error:
                    kept.append(path)
                    _logger.warning("%s can't be removed yet: %s", path, error.strerror)
        self._discarded.extend(kept)
        return count
