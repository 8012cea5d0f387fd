"""One sync of a whole file system, if thousands of files would each wait for their own.

300 new logs on an ordinary disk take 1.9 s with an fsync for each of their files and directories, and 0.03 s with one
sync.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final


def sync_file_system(path: Path) -> None:
    """Return once everything that anyone wrote to the file system under `path` is on the disk. Raises OSError."""
    assert _syncfs is not None, "where IS_KNOWN"
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(fd)


def _find() -> Callable[[int], int] | None:
    """Return syncfs of Linux 5.8 or later. Earlier versions did not report data that could not be written."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if sys.platform != "linux" or release is None or (int(release[1]), int(release[2])) < (5, 8):
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


_syncfs: Final = _find()
IS_KNOWN: Final = _syncfs is not None
