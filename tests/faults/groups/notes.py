"""A member's notes in the history (`tests.faults.history`): lines as `checker` reads them, each written at once."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection, Mapping
from typing import Final

from tests.faults.history import HistoryWriter

from ottla_core.errors import ErrorCode, OttlaError

REFUSALS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""What is answered so was not done."""

Offsets = Mapping[int, int]
"""By partition."""


class GroupNotes:
    """The notes of one process, `number` among those that commit; no two processes ever write the same value."""

    def __init__(self, history: HistoryWriter, number: int) -> None:
        self._history: Final = history
        self._number: Final = number
        self._ids: Final = itertools.count(1)
        self._last_value = 0
        self._lock: Final = threading.Lock()

    def fresh_value(self) -> int:
        """An offset that nobody commits again."""
        with self._lock:
            self._last_value = max(self._last_value + 1, time.monotonic_ns() // 1000)
            return self._last_value * 64 + self._number

    def committing(self, group: str, member: str, generation: int | None, offsets: Offsets) -> int:
        """Its number, for what becomes of it. Without a generation where the client does not tell it."""
        number = next(self._ids)
        self._add("invoke", "commit", id=number, group=group, member=member, generation=generation, offsets=offsets)
        return number

    def committed(self, number: int, group: str) -> None:
        self._add("ok", "commit", id=number, group=group)

    def not_committed(self, number: int, group: str, error: object, *, refused: bool) -> None:
        """Refused, or else nobody knows."""
        self._add("fail" if refused else "info", "commit", id=number, group=group, error=str(error))

    def fetched(self, group: str, offsets: Offsets, asked_ns: int) -> None:
        self._add("ok", "fetch", group=group, offsets=offsets, asked_ns=asked_ns)

    def given(self, group: str, owner: str, generation: int, partitions: Collection[int]) -> None:
        self._add("ok", "sync", group=group, owner=owner, generation=generation, partitions=sorted(partitions))

    def told(self, f: str, group: str, error: object) -> None:
        """`kicked`, `surprise` or `unsettled` (`checker`); any other is for people to read."""
        self._add("info", f, group=group, error=str(error))

    def _add(self, type_: str, f: str, **fields: object) -> None:
        with self._lock:
            self._history.add(type_, f, **fields)
            self._history.flush()


def is_refusal(error: OttlaError) -> bool:
    return error.code in REFUSALS
