"""Room that is kept on a disk for what has to be written when it is full: epochs, checkpoints, and a start's repairs.

A file of zeroes lies in the data directory. It is removed as soon as the disk is full, and comes back once there is
room for twice its size. Until then nothing is appended, because appends would eat the room that was kept.
"""

from __future__ import annotations

from contextlib import suppress
from errno import EDQUOT, ENOSPC, EROFS
from pathlib import PurePath
from typing import Final

from ottla_broker.storage import files
from ottla_broker.storage.files import DiskSpace

FILE: Final = ".reserve"
NO_ROOM: Final = frozenset({ENOSPC, EDQUOT, EROFS})
"""Errors of a disk that takes no more data now, and may take some later."""

MOST_BYTES: Final = 8 << 20
_SHARE: Final = 16


def reserve_bytes(disk: DiskSpace) -> int:
    """Return how many bytes are reserved on that disk: eight megabytes, or a sixteenth of a small disk."""
    return min(MOST_BYTES, disk.total_bytes // _SHARE)


class Reserve:
    """A file of `reserve_bytes`."""

    def __init__(self, directory: PurePath) -> None:
        self._path: Final = directory / FILE

    def release(self) -> bool:
        """Give the room back, and return whether there was any. Nothing can be done if the disk is read-only."""
        try:
            if existing := files.exists(self._path):
                files.remove(self._path)
        except OSError:
            return False
        return existing

    def make(self) -> bool:
        """Keep the room if there is twice as much, and return whether there was. For a thread."""
        try:
            disk = files.disk_space(self._path.parent)
            size_bytes = reserve_bytes(disk)
            if disk.is_read_only:
                return False
            if files.exists(self._path) and files.size_bytes(self._path) == size_bytes:
                return True
            if disk.usable_bytes < 2 * size_bytes:
                return False
            file = files.open_file(self._path, write=True)
            try:
                file.allocate(2 * size_bytes)
                file.truncate(size_bytes)
            finally:
                file.close()
        except OSError as error:
            with suppress(OSError):
                files.remove_if_there(self._path)
            if error.errno in NO_ROOM:
                return False
            raise
        return True
