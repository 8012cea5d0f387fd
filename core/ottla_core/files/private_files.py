"""The files and directories that a process makes are for its own user alone.

They have records, names of topics and groups, and passwords. So no service and no `ottla up` leaves it to the caller's
umask who may read them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_OF_OTHERS: Final = stat.S_IRWXO
_OF_ALL_BUT_THE_OWNER: Final = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def private_files() -> Iterator[None]:
    """Let nobody but the owner use files that are made in the block, by this process and those that it starts there.

    It holds for the whole process. An explicit mode may allow less, and only `chmod` may allow more.
    """
    before = os.umask(_OF_ALL_BUT_THE_OWNER)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(directory: Path) -> list[Path]:
    """Return what a directory has that every user of the host may use, sorted: it was made by an earlier release, or by
    hand. It is empty if others can't get into the directory."""
    place = directory.absolute()
    try:
        if not all(above.stat().st_mode & stat.S_IXOTH for above in (place, *place.parents)):
            return []
        entries = [(Path(entry.path), entry.stat(follow_symlinks=False).st_mode) for entry in os.scandir(place)]
    except OSError:  # it is not there yet, or is not ours
        return []
    return sorted(path for path, mode in entries if mode & _OF_OTHERS and not stat.S_ISLNK(mode))


def warning_of(directory: Path) -> str:
    """Return what an administrator has to know of a directory that was there before, or ""."""
    found = open_to_others(directory)
    if not found:
        return ""
    others = f" and {len(found) - 1} more" if found[1:] else ""
    return f"other users of this host can use {found[0]}{others}; run `chmod -R go= {directory}`"
