"""The log of a supervised process, which can't grow without bound while the process lives.

The process appends to the file itself: no reader holds it up, and its last lines are kept whatever else has died.
Beyond the limit the file is copied beside itself and emptied, and the process continues at its new end, for it appends
(logrotate's `copytruncate`). Lost is only what it writes in the instant between the end of the copy and the emptying.
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
    """A file that may pass `limit_bytes` by what is written between two looks; the part before it is in `….log.1`."""

    def __init__(self, path: Path, *, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
        self.path: Final = path
        self._limit_bytes: Final = limit_bytes

    def open(self) -> BinaryIO:
        """The file to be a process's output, at its end. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.open("ab")

    def trim(self) -> None:
        """Where the file is over the limit, keep what it holds beside it and empty it. Raises OSError."""
        if not self.path.exists() or self.path.stat().st_size <= self._limit_bytes:
            return
        with self.path.open("r+b") as file:
            with self.path.with_suffix(".log.1").open("wb") as kept:
                shutil.copyfileobj(file, kept, _BLOCK_BYTES)
            file.truncate(0)


async def keep_trimmed(logs: Sequence[ChildLog], *, every_s: float = _LOOK_EVERY_S) -> None:
    """Trim each of the logs as often as that, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for log in logs:
            try:
                await asyncio.to_thread(log.trim)
            except OSError as error:  # such as a full disk, on which nothing grows
                _log.error("%s could not be trimmed: %s", log.path, error)
