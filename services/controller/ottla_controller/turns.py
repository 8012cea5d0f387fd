"""The order of decisions: one at a time, urgent ones first, and only a limited number may wait.

Elections must not queue behind a storm of requests, and a storm must not fill the memory (I13). A request that is
cancelled while it waits has taken nothing and leaves nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError


class Turns:
    """`take()` returns when it is the caller's turn, which lasts until `give_back()`."""

    def __init__(self, most_waiting: int) -> None:
        self._most: Final = most_waiting
        self._busy = False
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._ordinary: deque[asyncio.Future[None]] = deque()

    async def take(self, *, urgent: bool = False) -> None:
        """Wait for a turn. Raises REQUEST_TIMED_OUT if too many wait already, but never for urgent ones, which are
        few."""
        if not self._busy:
            self._busy = True
            return
        queue = self._urgent if urgent else self._ordinary
        if not urgent and len(queue) >= self._most:
            raise OttlaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._most:,} requests are already waiting for the controller; nothing was changed",
                hint="try again later",
            )
        slice_: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(slice_)
        try:
            await slice_
        except asyncio.CancelledError:
            if not slice_.cancelled():
                self.give_back()  # the turn had just been given to this task
            elif slice_ in queue:
                queue.remove(slice_)
            raise

    def give_back(self) -> None:
        for queue in (self._urgent, self._ordinary):
            while queue:
                slice_ = queue.popleft()
                if not slice_.done():  # otherwise its taker was cancelled, and has not run since
                    slice_.set_result(None)
                    return
        self._busy = False
