"""Waiting without polling: a fetch that found too little sleeps here until enough has come.

The order is Kafka's (rule 55): register first, mark, look, then sleep. Whatever happens between the mark and the sleep
is remembered. A delayed fetch ends once, by enough bytes, by a change of its partition, by its owner's deadline, or
because the broker drains.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla_broker.machines.follower_session import FollowerSession, FollowerSessions
from ottla_core.model import PartitionId


class DelayedFetch:
    """One delayed fetch, over all its partitions."""

    __slots__ = ("_arrived_bytes", "_closed", "_needed_bytes", "_woken")

    def __init__(self, *, closed: bool) -> None:
        self._closed = closed
        self._woken = asyncio.Event()
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
        if self._closed:
            return False
        try:
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
        except TimeoutError:
            return False
        return not self._closed

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
        self._closed = True
        self._woken.set()


class FetchPurgatory:
    def __init__(self) -> None:
        self._by_partition: Final[dict[PartitionId, set[DelayedFetch]]] = {}
        self._closed = False

    @contextmanager
    def delayed(self, partitions: Iterable[PartitionId]) -> Iterator[DelayedFetch]:
        """A delayed fetch that hears of every change of `partitions` inside the block."""
        delayed, positions = DelayedFetch(closed=self._closed), set(partitions)
        for partition in positions:
            self._by_partition.setdefault(partition, set()).add(delayed)
        try:
            yield delayed
        finally:
            for partition in positions:
                waiting = self._by_partition[partition]
                waiting.discard(delayed)
                if not waiting:
                    del self._by_partition[partition]

    def on_bytes(self, partition: PartitionId, size_bytes: int) -> None:
        """More bytes can be read."""
        for delayed in self._by_partition.get(partition, ()):
            delayed.on_bytes(size_bytes)

    def wake(self, partition: PartitionId) -> None:
        """Leadership, epoch, high watermark or existence changed: delayed fetches look again."""
        for delayed in self._by_partition.get(partition, ()):
            delayed.wake()

    @property
    def partitions(self) -> Collection[PartitionId]:
        """For which something is delayed."""
        return self._by_partition.keys()

    def close(self) -> None:
        """No fetch waits any more: what is delayed is answered with what there is, for the broker shuts down."""
        self._closed = True
        for waiting in self._by_partition.values():
            for delayed in waiting:
                delayed.close()

    def __len__(self) -> int:
        """Delayed fetches, once per partition that they wait for."""
        return sum(len(waiting) for waiting in list(self._by_partition.values()))


class ConfirmationPurgatory(FetchPurgatory):
    """Delayed checks of leadership (leadership_confirmation), and the number of the newest one on this broker."""

    newest = 0

    def begin(self) -> int:
        """The number of a check that is made now."""
        self.newest += 1
        return self.newest


class ParkedFollowerFetch(DelayedFetch):
    """The fetches of a follower's session: one at a time, and how many have come."""

    def __init__(self) -> None:
        super().__init__(closed=False)
        self.turn: Final = asyncio.Lock()
        self.requests = 0
        self.watermarks_at = 0.0
        """When the high watermarks are due that have moved where nothing else has (the loop's time)."""


Session = FollowerSession[ParkedFollowerFetch]
Sessions = FollowerSessions[ParkedFollowerFetch]
