"""Measures the room on a disk for what a clean writes, which never takes what appends and the disk's reserve need.

A clean needs its room only for a moment, because cleaned segments replace their sources group by group. Without room a
log stays as it is, and is named.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from ottla_broker.storage import files
from ottla_broker.storage.reserve import reserve_bytes
from ottla_core.errors import ErrorCode, OttlaError

_RESERVES: Final = 2
"""A reserve that was released comes back only if there is room for two."""


class Room:
    """The room on the disk of `directory`. Measuring it is cheap enough for every megabyte that is written."""

    def __init__(self, directory: PurePath) -> None:
        self._directory: Final = directory

    @property
    def usable_bytes(self) -> int:
        """This is how many bytes a clean may write now. Raises OSError."""
        disk = files.disk_space(self._directory)
        return max(0, disk.usable_bytes - _RESERVES * reserve_bytes(disk))

    def check(self, size_bytes: int) -> None:
        """Raise KAFKA_STORAGE_ERROR unless `size_bytes` may be written. Raises OSError."""
        if size_bytes > (usable := self.usable_bytes):
            raise OttlaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"apart from its reserve, the disk has room for {usable} bytes; the next segment needs {size_bytes}",
                hint="free space on the data directory's disk, delete topics, or shorten their retention; the broker "
                "retries. With a smaller segment.bytes, future segments need less space",
            )
