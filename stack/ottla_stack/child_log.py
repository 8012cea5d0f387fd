"""The log of a supervised process, which can't grow without bound while the process runs.

The process appends to the file itself. So no reader holds it up, and its last lines are kept whatever else dies. Once
the file is over the limit, it is copied to another file and emptied. Because the process appends, it continues at the
new end (logrotate's `copytruncate`). Only what it writes between the end of the copy and the emptying is lost.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

LOG_LIMIT_BYTES: Final = 16 * 1024 * 1024
_LOOK_EVERY_S: Final = 5.0
_BLOCK_BYTES: Final = 1024 * 1024

_log = logging.getLogger(__name__)


class ChildLog:
    """A file that may exceed `limit_bytes` by what is written between two looks. `….log.1` has the part before it."""

    def __init__(self, path: Path, *, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
        self.path: Final = path
        self._limit_bytes: Final = limit_bytes

    def open(self) -> BinaryIO:
        """Open the file to append a process's output. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.open("ab")

    def trim(self) -> None:
        """If the file is over the limit, copy it to `….log.1` and empty it. Raises OSError."""
        if not self.path.exists() or self.path.stat().st_size <= self._limit_bytes:
            return
        with self.path.open("r+b") as file:
            with self.path.with_suffix(".log.1").open("wb") as kept:
                shutil.copyfileobj(file, kept, _BLOCK_BYTES)
            file.truncate(0)


async def keep_trimmed(logs: Sequence[ChildLog], *, every_s: float = _LOOK_EVERY_S) -> None:
    """Trim each of the logs every `every_s` seconds, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for log in logs:
            try:
                await asyncio.to_thread(log.trim)
            except OSError as error:  # such as a full disk, on which nothing grows
                _log.error("%s could not be trimmed: %s", log.path, error)
