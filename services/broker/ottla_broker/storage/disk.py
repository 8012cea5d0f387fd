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
import os
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EBADMSG, EDQUOT, EIO, EMFILE, ENFILE, ENOSPC, EOPNOTSUPP, EPERM, EROFS
from pathlib import Path
from threading import Lock, local
from typing import Final

from ottla_broker.storage import soundness, syncfs
from ottla_broker.storage.reserve import NO_ROOM, Reserve
from ottla_core.errors import ErrorCode, OttlaError

DELETED_SUFFIX: Final = ".deleted"
TEMPORARY_SUFFIX: Final = ".tmp"
_IOV_MAX: Final = 1024  # the most buffers that Linux takes in one pwritev

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
    EBADMSG: "stop the broker and rebuild the index with `ottla log index`, or delete this replica: it is copied again",
    EIO: _RESTART,
}


class DataFile:
    """An open file that closes itself with its last reader: a thread may still read a segment that is being deleted."""

    __slots__ = ("_fd", "path", "takes_writes")

    def __init__(self, path: Path, *, write: bool = False, create: bool = True) -> None:
        self._fd = -1
        self.path: Final = path
        self.takes_writes: Final = write
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if write and create else 0)
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return up to `size_bytes` bytes. They are fewer only at the end of the file."""
        return os.pread(self._fd, size_bytes, position)

    def read_into(self, view: memoryview, position: int, *, hot: bool = False) -> int | None:
        """Fill `view`, and return how many bytes were read. They are fewer than requested only at the end of the file.

        Return None if `hot` is requested and not all of the bytes lie in the page cache. Then nothing has waited for
        the disk.
        """
        try:
            count = os.preadv(self._fd, [view], position, os.RWF_NOWAIT if hot else 0)
        except BlockingIOError:
            return None
        except OSError as error:
            if not hot or error.errno != EOPNOTSUPP:
                raise
            count = os.preadv(self._fd, [view], position)  # a file system in memory: always hot
        return None if hot and count < len(view) else count

    def write(self, buffers: Sequence[bytes | memoryview], position: int) -> int:
        """Return how many bytes were written."""
        if len(buffers) > _IOV_MAX:
            buffers = [b"".join(buffers)]
        return os.pwritev(self._fd, buffers, position)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)

    def sync(self) -> None:
        os.fdatasync(self._fd)


class OpenFiles:
    """The open files of segments. A file is opened when it is read or written, and the least recently used one is
    closed, so descriptors follow the logs in use.

    Linux also syncs what was written through a descriptor that has been closed since.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: OrderedDict[Path, DataFile] = OrderedDict()
        self._lock = Lock()
        self._renamed = 0

    def get(self, path: Path, *, write: bool = False) -> DataFile:
        """Return the open file, without creating one. Raises FileNotFoundError if the segment has just been deleted."""
        with self._lock:
            file = self._files.get(path)
            if file is not None and (file.takes_writes or not write):
                self._files.move_to_end(path)
                return file
            renamed = self._renamed
        file = DataFile(path, write=write, create=False)  # opened without the lock, because the disk may be slow
        with self._lock:
            if renamed == self._renamed:  # otherwise another file may have the name by now
                self._keep(file)
        return file

    def create(self, path: Path) -> DataFile:
        """Return the file, open for writes. It is created if it does not exist."""
        file = DataFile(path, write=True)
        with self._lock:
            self._renamed += 1
            self._keep(file)
        return file

    def _keep(self, file: DataFile) -> None:
        self._files[file.path] = file
        self._files.move_to_end(file.path)
        if len(self._files) > self._limit:
            self._files.popitem(last=False)

    def peek(self, path: Path) -> DataFile | None:
        """Return the file if it is open."""
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
            return file

    def forget(self, path: Path) -> None:
        """Close a file that was renamed away: the last reader frees its space."""
        with self._lock:
            self._renamed += 1
            self._files.pop(path, None)


class Disk:
    """The device under one data directory: whether it can still be trusted, its open files, and what is to unlink."""

    def __init__(self, path: Path, *, max_open_files: int = 256) -> None:
        self.path: Final = path
        self.failure = ""
        self.full = ""
        """It says why nothing is appended here. It is set once a reserve was kept and has been released."""
        self._reserve: Reserve | None = None
        self.files: Final = OpenFiles(max_open_files)
        self._discarded: deque[Path] = deque()
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
            _write_all(file, buffers, position, size_bytes)
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
        self._put_off.until_end, self._put_off.replacements = syncfs.IS_KNOWN, {}
        try:
            yield
        finally:
            put_off, self._put_off.until_end = self._put_off.until_end, False
        if put_off:
            self._sync_file_system()
            self._replace_put_off()

    def _replace_put_off(self) -> None:
        replacements: dict[Path, Path] = self._put_off.replacements
        for path, temporary in replacements.items():
            try:
                temporary.replace(path)
            except OSError as error:
                raise self.error(f"writing {path}", error) from error
        if replacements:
            self._sync_file_system()

    def _sync_file_system(self) -> None:
        try:
            syncfs.sync_file_system(self.path)
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

    def sync_directory(self, path: Path) -> None:
        """fsync the names in a directory. If that fails, the data directory is offline.

        After a lack of descriptors it stays online and the fsync may be tried again: nothing was synced, so no page was
        marked clean.
        """
        if self._syncs_later:
            return
        try:
            sync_directory(path)
        except OSError as error:
            if error.errno in (EMFILE, ENFILE):
                raise self.error(f"fsync of {path.name}", error) from error
            raise self.fail(f"fsync of {path.name}", error) from error

    def replace_file(self, path: Path, content: str | bytes) -> None:
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

    def _write_anew(self, path: Path, content: str | bytes) -> None:
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            with temporary.open("wb") as out:
                out.write(content.encode() if isinstance(content, str) else content)
                out.flush()
                self._sync_new(out.fileno(), path)
            if self._syncs_later and path.exists():
                self._put_off.replacements[path] = temporary
            else:
                temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def _sync_new(self, fd: int, path: Path) -> None:
        if self._syncs_later:
            return
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                raise
            raise self.fail(f"fsync of {path.name}", error) from error

    def discard(self, path: Path) -> None:
        """Rename a file away now. `unlink_discarded` frees its space later."""
        doomed = path.with_name(path.name + DELETED_SUFFIX)
        path.rename(doomed)
        self.files.forget(path)
        self._discarded.append(doomed)

    def unlink_discarded(self) -> int:
        """Unlink the discarded files, and return how many. For a thread: a gigabyte takes a file system tens of
        milliseconds.

        A file that can't be unlinked is tried again at the next call.
        """
        count, kept = 0, list[Path]()
        with suppress(IndexError):  # another thread may take the last file
            while True:
                path = self._discarded.popleft()
                try:
                    path.unlink(missing_ok=True)
                    count += 1
                except OSError as error:
                    kept.append(path)
                    _logger.warning("%s can't be removed yet: %s", path, error.strerror)
        self._discarded.extend(kept)
        return count


def _write_all(file: DataFile, buffers: Sequence[bytes | memoryview], position: int, size_bytes: int) -> None:
    written = file.write(buffers, position)
    if written != size_bytes:
        raise OSError(ENOSPC, f"the disk accepted only {written} of {size_bytes} bytes")


def sync_directory(path: Path) -> None:
    """fsync a directory, so that the names that were created, renamed or removed in it are durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
