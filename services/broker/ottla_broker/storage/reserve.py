"""Room that is kept on a disk for what has to be written when it is full: epochs, checkpoints, and a start's repairs.

A file of zeroes lies in the data directory. It is removed as soon as the disk is full, and comes back once there is
room for twice its size. Until then nothing is appended, because appends would eat the room that was kept.
"""

from __future__ import annotations

import os
from contextlib import suppress
from errno import EDQUOT, ENOSPC, EROFS
from pathlib import Path
from typing import Final

FILE: Final = ".reserve"
NO_ROOM: Final = frozenset({ENOSPC, EDQUOT, EROFS})
"""Errors of a disk that takes no more data now, and may take some later."""

MOST_BYTES: Final = 8 << 20
_SHARE: Final = 16


def reserve_bytes(disk: os.statvfs_result) -> int:
    """Return how many bytes are reserved on that disk: eight megabytes, or a sixteenth of a small disk."""
    return min(MOST_BYTES, disk.f_blocks * disk.f_frsize // _SHARE)


class Reserve:
    """A file of `reserve_bytes`."""

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / FILE

    def release(self) -> bool:
        """Give the room back, and return whether there was any. Nothing can be done if the disk is read-only."""
        try:
            if existing := self._path.exists():
                self._path.unlink()
        except OSError:
            return False
        return existing

    def make(self) -> bool:
        """Keep the room if there is twice as much, and return whether there was. For a thread."""
        try:
            usage = os.statvfs(self._path.parent)
            size_bytes = reserve_bytes(usage)
            if usage.f_flag & os.ST_RDONLY:
                return False
            if self._path.exists() and self._path.stat().st_size == size_bytes:
                return True
            if usage.f_bavail * usage.f_frsize < 2 * size_bytes:
                return False
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.posix_fallocate(fd, 0, 2 * size_bytes)
                os.ftruncate(fd, size_bytes)
            finally:
                os.close(fd)
        except OSError as error:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            if error.errno in NO_ROOM:
                return False
            raise
        return True
