"""Everything the broker does with files. No other module may touch them.

Everywhere else in the broker a path is a `PurePath`: it names a file and can't touch it. So nothing escapes a
simulation that replaces the functions of this module, as long as they are called as `files.rename(…)` and never
imported by name. `tests/world/disk.py` has such a replacement, and one test suite runs over both.

Each function raises OSError as the operating system does, unless it says otherwise.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from errno import ENOSPC, EOPNOTSUPP
from pathlib import PurePath
from typing import Final, NamedTuple

_IOV_MAX: Final = 1024  # the most buffers that Linux takes in one pwritev
_KERNELS_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class DiskSpace(NamedTuple):
    """The size of a file system and what is free for this user, in bytes."""

    total_bytes: int
    usable_bytes: int
    is_read_only: bool


class DataFile:
    """An open file that closes itself with its last reader: a thread may still read a segment that is being deleted."""

    __slots__ = ("_fd", "path", "takes_writes")

    def __init__(self, path: PurePath, *, write: bool = False, create: bool = True, empty: bool = False) -> None:
        self._fd = -1
        self.path: Final = path
        self.takes_writes: Final = write
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if write and create else 0)
        self._fd = os.open(path, flags | (os.O_TRUNC if empty else 0) | os.O_CLOEXEC, 0o666)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and release the lock that it holds. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

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

    def write_all(self, buffers: Sequence[bytes | memoryview], position: int, size_bytes: int) -> None:
        """Write the `size_bytes` bytes of `buffers`. If the disk takes only a part of them, raise ENOSPC."""
        written = self.write(buffers, position)
        if written != size_bytes:
            raise OSError(ENOSPC, f"the disk accepted only {written} of {size_bytes} bytes for {self.path.name}")

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)

    def allocate(self, size_bytes: int) -> None:
        """Give the file that size, with all its blocks allocated."""
        os.posix_fallocate(self._fd, 0, size_bytes)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def lock(self) -> bool:
        """Lock the file until it is closed or the process ends. Return False if another holder has locked it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def open_file(path: PurePath, *, write: bool = False, create: bool = True) -> DataFile:
    """Return the file, open for reads. With `write` it also takes writes, and is created if `create` allows that."""
    return DataFile(path, write=write, create=create)


def open_empty(path: PurePath) -> DataFile:
    """Return an empty file, open for writes. An existing file of that name loses its content."""
    return DataFile(path, write=True, empty=True)


def read_bytes(path: PurePath) -> bytes:
    file = open_file(path)
    return file.read(0, file.size_bytes())


def read_text(path: PurePath) -> str:
    """Return the content as UTF-8. Raises UnicodeDecodeError, which is a ValueError."""
    return read_bytes(path).decode()


def exists(path: PurePath) -> bool:
    """Return whether there is a file or a directory. A disk that can't tell is an error, and no answer."""
    return _mode(path) is not None


def is_directory(path: PurePath) -> bool:
    return stat.S_ISDIR(_mode(path) or 0)


def _mode(path: PurePath) -> int | None:
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_private(path: PurePath) -> bool:
    """Return whether only the owner can read the file, or also the group if root owns it, as an administrator gives a
    file to one service."""
    status = os.stat(path)
    others = stat.S_IROTH if status.st_uid == 0 else stat.S_IROTH | stat.S_IRGRP
    return not status.st_mode & others


def size_bytes(path: PurePath) -> int:
    return os.stat(path).st_size


def version(path: PurePath) -> str:
    """Identify the file and its last change. A copy is another file, or has changed the file that it replaces. No
    program can set the time of that change."""
    status = os.stat(path)
    return f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}"


def modified_ns(path: PurePath) -> int:
    """Return when the file was last written, in nanoseconds since 1970."""
    return os.stat(path).st_mtime_ns


def set_modified(path: PurePath, time_ns: int) -> None:
    os.utime(path, ns=(time_ns, time_ns))


def names_in(directory: PurePath) -> list[str]:
    return os.listdir(directory)


def make_directory(path: PurePath, *, parents: bool = False) -> None:
    """Create the directory, unless it exists, and with `parents` those above it."""
    if parents:
        os.makedirs(path, exist_ok=True)
        return
    try:
        os.mkdir(path)
    except FileExistsError:
        if not is_directory(path):
            raise


def rename(path: PurePath, target: PurePath) -> None:
    """Rename a file or a directory. A file replaces an existing file of that name."""
    os.rename(path, target)


def remove(path: PurePath) -> None:
    os.unlink(path)


def remove_if_there(path: PurePath) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def remove_tree(directory: PurePath) -> None:
    """Remove a directory with its contents, as far as possible. Raises nothing."""
    shutil.rmtree(directory, ignore_errors=True)


def sync_names(directory: PurePath) -> None:
    """fsync a directory, so that the names that were created, renamed or removed in it are durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file_system(path: PurePath) -> None:
    """Return once everything that anyone wrote to the file system under `path` is on the disk.

    300 new logs on an ordinary disk take 1.9 s with an fsync for each of their files and directories, and 0.03 s with
    one sync of the file system. Call it only if `SYNCS_FILE_SYSTEMS` is true.
    """
    assert _syncfs is not None, "SYNCS_FILE_SYSTEMS is true"
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(fd)


def disk_space(path: PurePath) -> DiskSpace:
    """Return the space on the file system of `path`."""
    usage = os.statvfs(path)
    return DiskSpace(
        usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize, bool(usage.f_flag & os.ST_RDONLY)
    )


def boot_id() -> str:
    """Return the kernel's id of this boot, which is the same in all containers, or an empty string if it has none."""
    try:
        with open(_KERNELS_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _find_syncfs() -> Callable[[int], int] | None:
    """Return syncfs of Linux 5.8 or later. Earlier versions did not report data that could not be written."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if sys.platform != "linux" or release is None or (int(release[1]), int(release[2])) < (5, 8):
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


_syncfs: Final = _find_syncfs()
SYNCS_FILE_SYSTEMS: Final = _syncfs is not None
