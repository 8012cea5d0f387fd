"""Waiters for the high watermark of one partition, and how many bytes its next step makes visible.

acks=all waits here (Kafka's produce purgatory) until every member of the ISR has the batch.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final

from ottla_core.errors import OttlaError

_MAX_STEPS: Final = 256
"""Appends above the high watermark whose sizes are kept apart; what comes beyond is counted with the last of them."""

_PURGE_AT: Final = 1_000


class HighWatermarkWaiters:
    """Who waits from when this broker begins to lead until it retires, through all leader epochs in between."""

    def __init__(self) -> None:
        self.have_failed = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turns = itertools.count()
        self._purge_at = _PURGE_AT
        self._sizes: list[tuple[int, int]] = []  # short; an empty deque takes 760 bytes, of each of thousands

    def on_appended(self, end_offset: int, size_bytes: int) -> None:
        """`size_bytes` became part of the log, up to `end_offset`."""
        if len(self._sizes) >= _MAX_STEPS:
            size_bytes += self._sizes.pop()[1]
        self._sizes.append((end_offset, size_bytes))

    def on_high_watermark(self, high_watermark: int) -> int:
        """Complete what waited for it; the bytes that it has passed."""
        size_bytes = 0
        while self._sizes and self._sizes[0][0] <= high_watermark:
            size_bytes += self._sizes.pop(0)[1]
        while self._waiting and self._waiting[0][0] <= high_watermark:
            delayed = heapq.heappop(self._waiting)[2]
            if not delayed.done():
                delayed.set_result(None)
        return size_bytes

    def until(self, offset: int) -> asyncio.Future[None]:
        """Done once the high watermark has reached `offset`; fails with the error of `fail` before that."""
        delayed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= self._purge_at:  # while nothing is committed, every try that timed out leaves one
            self._waiting = [entry for entry in self._waiting if not entry[2].done()]
            heapq.heapify(self._waiting)
            self._purge_at = 2 * len(self._waiting) + _PURGE_AT
        heapq.heappush(self._waiting, (offset, next(self._turns), delayed))
        return delayed

    def fail(self, error: OttlaError) -> None:
        """This broker will never know whether it was committed (rule 10)."""
        self.have_failed = True
        waiting, self._waiting = self._waiting, []
        self._sizes.clear()
        for _, _, delayed in waiting:
            if not delayed.done():
                delayed.set_exception(error)

    def __len__(self) -> int:
        return len(self._waiting)
