"""A partition's waiters for its high watermark, and the number of bytes that its next step makes visible.

A produce with acks=all waits here (Kafka's produce purgatory) until every member of the ISR has its batch. Fetches need
the second part: a delayed consumer waits for min_bytes that are *visible*, so the bytes of each append are kept until
the high watermark passes them (rule 56: min_bytes counts visible bytes).

Both are bounded. While nothing is committed, producers time out and try again, each time with another waiter, and
appends go on with acks=1.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final

from ottla_core.errors import OttlaError

_MAX_STEPS: Final = 256
"""The most appends above the high watermark whose sizes are kept apart. Further appends are counted with the last
one."""

_PURGE_AT: Final = 1_000
"""The number of waiters from which those that have given up are looked for."""


class HighWatermarkWaiters:
    """The waiters from when this broker begins to lead until it retires, through all leader epochs in between."""

    def __init__(self) -> None:
        self.have_failed = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turns = itertools.count()
        self._purge_at = _PURGE_AT
        # A list, though it is used as a queue: it is short, and an empty deque takes 760 bytes in each of thousands of
        # partitions.
        self._sizes: list[tuple[int, int]] = []

    def on_appended(self, end_offset: int, size_bytes: int) -> None:
        """Note that `size_bytes` became part of the log, up to `end_offset`."""
        if len(self._sizes) >= _MAX_STEPS:
            # Joined sizes become visible later than they could, with the last of their appends. That delays a fetch,
            # and costs no memory.
            size_bytes += self._sizes.pop()[1]
        self._sizes.append((end_offset, size_bytes))

    def on_high_watermark(self, high_watermark: int) -> int:
        """Complete the waiters up to the high watermark, and return the bytes that it has passed."""
        size_bytes = 0
        while self._sizes and self._sizes[0][0] <= high_watermark:
            size_bytes += self._sizes.pop(0)[1]
        while self._waiting and self._waiting[0][0] <= high_watermark:
            delayed = heapq.heappop(self._waiting)[2]
            if not delayed.done():
                delayed.set_result(None)
        return size_bytes

    def until(self, offset: int) -> asyncio.Future[None]:
        """Return a future that is done once the high watermark has reached `offset`, or fails with the error of
        `fail`."""
        delayed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # While nothing is committed, every produce that has timed out leaves a cancelled waiter in the heap. The bound
        # doubles with what is left, so that a purge costs no more than the pushes since the last one.
        if len(self._waiting) >= self._purge_at:
            self._waiting = [entry for entry in self._waiting if not entry[2].done()]
            heapq.heapify(self._waiting)
            self._purge_at = 2 * len(self._waiting) + _PURGE_AT
        # The turn orders waiters of one offset, since futures can't be compared.
        heapq.heappush(self._waiting, (offset, next(self._turns), delayed))
        return delayed

    def fail(self, error: OttlaError) -> None:
        """Fail every waiter: this broker will never know whether its batch was committed (rule 10)."""
        self.have_failed = True
        waiting, self._waiting = self._waiting, []
        self._sizes.clear()
        for _, _, delayed in waiting:
            if not delayed.done():
                delayed.set_exception(error)

    def __len__(self) -> int:
        return len(self._waiting)
