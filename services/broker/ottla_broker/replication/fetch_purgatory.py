"""Waiting without polling: a fetch that found too little sleeps here until enough has come.

Events and fetches race: a record may be appended just after a fetch has looked and just before it sleeps. Kafka's order
closes that gap (rule 55): a fetch watches its partitions, marks, looks, and only then sleeps. What happens after the
mark is counted, so that a sleep which has been overtaken by it ends at once. The session remembers where it happened,
and the fetch looks again only there.

A fetch is answered once: when enough bytes have come, when a partition has changed, at its deadline, or when the broker
shuts down.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias

from ottla_broker.machines.fetch_session import FetchSession, Watchers
from ottla_broker.machines.follower_session import FollowerSession, FollowerSessions
from ottla_core.event_loop.slices import sliced
from ottla_core.model import PartitionId


class DelayedFetch:
    """Lets the fetch of a session sleep until events are worth a look."""

    __slots__ = ("_arrived_bytes", "_needed_bytes", "_woken", "is_closed")

    def __init__(self) -> None:
        self.is_closed = False
        self._woken: Final = asyncio.Event()
        self.mark()

    def mark(self) -> None:
        """Count from now on. Called before each look, because what comes later may be missing in it."""
        self._arrived_bytes = 0
        self._needed_bytes = math.inf
        self._woken.clear()

    async def sleep(self, deadline: float, missing_bytes: int) -> bool:
        """Wait until `missing_bytes` have come since the mark, or a change, but at most until `deadline` (loop time).

        Return whether another look is worth it.
        """
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
        """Return whether the fetch has looked and found too little."""
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
    """The delayed fetches of one kind, found by the partitions that they watch."""

    def __init__(self) -> None:
        super().__init__(_call_soon)
        self.parked = 0
        """Fetches that sleep now."""

    @contextmanager
    def delayed(self, partitions: Iterable[PartitionId]) -> Iterator[DelayedFetch]:
        """Yield a delayed fetch that hears of every change of `partitions` inside the block."""
        session: FetchSession[PartitionId, None, DelayedFetch] = FetchSession(self, DelayedFetch())
        for partition in partitions:
            session.name(partition, None)
            session.look_at(partition, partition)
        try:
            yield session.parked
        finally:
            session.end()

    async def wake_all(self) -> None:
        """Have every fetch look at its partitions again, a few partitions in each turn of the loop."""
        await sliced(self.wake, list(self.partitions))

    async def park(self, delayed: DelayedFetch, deadline: float, missing_bytes: int) -> bool:
        """Sleep as `DelayedFetch.sleep` does, and count as parked until then."""
        self.parked += 1
        try:
            return not self.is_closed and await delayed.sleep(deadline, missing_bytes)
        finally:
            self.parked -= 1


class ConfirmationPurgatory(FetchPurgatory):
    """Delayed checks of leadership (leadership_confirmation), numbered in the order in which they begin."""

    newest = 0

    def begin(self) -> int:
        """Begin a check. Return its number."""
        self.newest += 1
        return self.newest


class FetchTurns:
    """Lets the fetches of a session run one at a time, so that a response covers what was named up to its fetch."""

    def __init__(self, delayed: DelayedFetch) -> None:
        self._delayed: Final = delayed
        self._turn: Final = asyncio.Lock()
        self._newest = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Callable[[], bool]]:
        """Wait for the turn of a fetch. Yield a function that tells whether a newer fetch has come since."""
        self._newest += 1
        number = self._newest
        # A parked fetch ends when a newer one comes, which may change what it waits for.
        self._delayed.wake()
        async with self._turn:
            yield lambda: self._newest != number


class ParkedFollowerFetch(DelayedFetch):
    """The parked fetch of a follower's session."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: Final = FetchTurns(self)
        self.watermarks_at = 0.0
        """It is the time from which the next response may name partitions whose high watermark alone has moved
        (loop time)."""


Session: TypeAlias = FollowerSession[ParkedFollowerFetch]


class Sessions(FollowerSessions[ParkedFollowerFetch]):
    """The sessions of the followers of this broker."""

    def __init__(self) -> None:
        super().__init__(_call_soon)
