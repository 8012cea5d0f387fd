"""How the transactions of one replica have ended, as its markers have it and as its `.txnindex` files have it."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

CONTROL_KEY: Final = struct.Struct(">hh")
_ENTRY: Final = struct.Struct(">hqqqq")
"""Version, producer id, first and last offset, last stable offset."""
_ABORT, _COMMIT = 0, 1


class TransactionEnds:
    """Give it every batch, in order. Raises ValueError for an index that is damaged."""

    def __init__(self, directory: Path) -> None:
        self._aborted: Final = defaultdict[int, list[range]](list)
        self._open: Final = defaultdict[int, list[tuple[int, bool]]](list)
        self._wrong: Final[list[str]] = []
        self._directory: Final = directory
        for path in sorted(directory.glob("*.txnindex")):
            data = path.read_bytes()
            if len(data) % _ENTRY.size:
                raise ValueError(f"{path} has {len(data)} bytes")
            for _, producer_id, first, last, _ in _ENTRY.iter_unpack(data):
                self._aborted[producer_id].append(range(first, last))

    def is_void(self, batch: Any) -> bool:
        """Whether readers of committed records leave out that batch, which is of no marker."""
        if not batch.is_transactional:
            return False
        is_void = any(batch.base_offset in aborted for aborted in self._aborted[batch.producer_id])
        if batch.records_count:
            self._open[batch.producer_id].append((batch.base_offset, is_void))
        return is_void

    def on_control(self, batch: Any) -> None:
        for record in batch:
            kind = CONTROL_KEY.unpack_from(record.key)[1] if record.key else None
            if kind in (_ABORT, _COMMIT):
                for offset, is_void in self._open.pop(batch.producer_id, ()):
                    if is_void != (kind == _ABORT):
                        self._differ(offset, f"a marker of kind {kind} at {record.offset}")

    def differences(self) -> list[str]:
        """In words, the batches of which markers and indexes tell different ends, and those without a marker."""
        for batches in self._open.values():
            for offset, _ in batches:
                self._differ(offset, "no marker behind it")
        self._open.clear()
        return self._wrong

    def _differ(self, offset: int, end: str) -> None:
        self._wrong.append(f"{self._directory} has {end} for the batch at {offset}, which the index knows otherwise")
