"""Waiting without polling: a fetch that found too little sleeps here until enough has come.

The order is Kafka's (rule 55): register first, mark, look, then sleep. Whatever happens between the mark and the sleep
is remembered, and the session remembers where: only there the fetch looks again. It ends once, by enough bytes, by a
change of its partition, by its owner's deadline, or because the broker drains.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias

from ottla_broker.machines.fetch_session import FetchSession, Watchers
from ottla_broker.machines.follower_session import FollowerSession, FollowerSessions
from ottla_core.model import PartitionId


class DelayedFetch:
    """The fetch of a session, which may wait."""

    __slots__ = ("_arrived_bytes", "_needed_bytes", "_woken", "is_closed")

    def __init__(self) -> None:
        self.is_closed = False
        self._woken: Final = asyncio.Event()
        self.mark()

    def mark(self) -> None:
        """To be called before each look: what comes from now on may be missing in it."""
        self._arrived_bytes = 0
        self._needed_bytes = math.inf
        self._woken.clear()

    async def sleep(self, deadline: float, missing_bytes: int) -> bool:
        """Whether this many bytes have come since the mark, or a change, before `deadline` (the loop's time)."""
        self._needed_bytes = missing_bytes
        if self._arrived_bytes >= missing_bytes:
            return True
        if self.is_closed:
            return False
        try:
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
        except TimeoutError:
            return False
        return not self.is_closed

    @property
    def waits(self) -> bool:
        """Whether it has looked, and found too little."""
        return self._needed_bytes < math.inf

    def on_bytes(self, size_bytes: int) -> None:
        self._arrived_bytes += size_bytes
        if self._arrived_bytes >= self._needed_bytes:
            self._woken.set()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.is_closed = True
        self._woken.set()


def _call_soon(call: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_soon(call)


class FetchPurgatory(Watchers[FetchSession[Any, Any, DelayedFetch]]):
    def __init__(self) -> None:
        super().__init__(_call_soon)
        self.parked = 0
        """Fetches that sleep now."""

    @contextmanager
    def delayed(self, partitions: Iterable[PartitionId]) -> Iterator[DelayedFetch]:
        """A delayed fetch that hears of every change of `partitions` inside the block."""
        session: FetchSession[PartitionId, None, DelayedFetch] = FetchSession(self, DelayedFetch())
        for partition in partitions:
            session.name(partition, None)
            session.look_at(partition, partition)
        try:
            yield session.parked
        finally:
            session.end()

    async def park(self, delayed: DelayedFetch, deadline: float, missing_bytes: int) -> bool:
        """`delayed.sleep`, counted."""
        self.parked += 1
        try:
            return not self.is_closed and await delayed.sleep(deadline, missing_bytes)
        finally:
            self.parked -= 1


class ConfirmationPurgatory(FetchPurgatory):
    """Delayed checks of leadership (leadership_confirmation), and the number of the newest one on this broker."""

    newest = 0

    def begin(self) -> int:
        """The number of a check that is made now."""
        self.newest += 1
        return self.newest


class FetchTurns:
    """The fetches of one session, one at a time, so that a response covers what was named up to its fetch."""

    def __init__(self, delayed: DelayedFetch) -> None:
        self._delayed: Final = delayed
        self._turn: Final = asyncio.Lock()
        self._newest = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Callable[[], bool]]:
        """Wait for the turn of a fetch; yield what tells whether a newer fetch has come since.

        A fetch that is parked ends when a newer one comes, because that one may change what it waits for.
        """
        self._newest += 1
        number = self._newest
        self._delayed.wake()
        async with self._turn:
            yield lambda: self._newest != number


class ParkedFollowerFetch(DelayedFetch):
    """The fetches of a follower's session."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: Final = FetchTurns(self)
        self.watermarks_at = 0.0
        """When the high watermarks are due that have moved where nothing else has (the loop's time)."""


Session: TypeAlias = FollowerSession[ParkedFollowerFetch]


class Sessions(FollowerSessions[ParkedFollowerFetch]):
    """The sessions of the followers of this broker."""

    def __init__(self) -> None:
        super().__init__(_call_soon)
