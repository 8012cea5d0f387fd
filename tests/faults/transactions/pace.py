"""Each kind of client has its share of a run's transactions: one that is ahead of another waits.

A file of each kind grows by a byte with each transaction whose end is known, whichever process wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LEAD: Final = 1.5
"""Times what the slowest of three has: that one has a quarter then."""
_SLACK: Final = 20


class Pace:
    def __init__(self, directory: Path, kind: str, kinds: Sequence[str]) -> None:
        self._own: Final = _file(directory, kind)
        self._others: Final = [_file(directory, each) for each in kinds if each != kind]

    def on_end(self) -> None:
        with self._own.open("ab") as file:
            file.write(b".")

    @property
    def is_ahead(self) -> bool:
        return bool(self._others) and _count(self._own) > _LEAD * min(map(_count, self._others)) + _SLACK


def ended(directory: Path, kinds: Sequence[str]) -> int:
    """The transactions of all these kinds."""
    return sum(_count(_file(directory, kind)) for kind in kinds)


def _file(directory: Path, kind: str) -> Path:
    return directory / f"{kind}.ended"


def _count(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
