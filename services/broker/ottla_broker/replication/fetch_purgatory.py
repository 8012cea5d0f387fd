"""Waiting without polling: a fetch that found too little sleeps here until enough has come.

The order is Kafka's (rule 55): register first, mark, look, then sleep. Whatever happens between the mark and the sleep
is remembered, and where it happened: only there the fetch looks again. It ends once, by enough bytes, by a change of
its partition, by its owner's deadline, or because the broker drains.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ottla_broker.machines.follower_session import FollowerSession, FollowerSessions
from ottla_core.model import PartitionId

_FORGOTTEN_AT_ONCE: Final = 1_000

K = TypeVar("K", bound=Hashable)
"""How a delayed fetch names a partition."""


class DelayedFetch(Generic[K]):
    """One delayed fetch, over all its partitions, or those of a fetch session one after the other.

    `pending`: what is to be looked at, in turn. `watched`: where it hears of changes (FetchPurgatory.watch). `is_idle`:
    between two fetches of a session, of which the next one may never come.
    """

    __slots__ = ("_arrived_bytes", "_needed_bytes", "_woken", "is_closed", "is_idle", "pending", "watched")

    def __init__(self, pending: Iterable[K] = (), *, closed: bool = False) -> None:
        self.is_closed = closed
        self.pending = dict.fromkeys(pending)
        self.watched: Final[dict[K, PartitionId]] = {}
        self._woken = asyncio.Event()
        self.mark()

    def mark(self) -> None:
        """To be called before each look: what comes from now on may be missing in it."""
        self.is_idle = False
        self._arrived_bytes = 0
        self._needed_bytes = math.inf
        self._woken.clear()

    def look_first_at(self, key: K) -> None:
        self.pending = {key: None} | self.pending

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


_Watching: TypeAlias = tuple[DelayedFetch[Any], Any]
"""A delayed fetch, and how it names the partition."""


class FetchPurgatory:
    def __init__(self) -> None:
        self.parked = 0
        """Fetches that sleep now."""
        self._by_partition: Final[dict[PartitionId, set[_Watching]]] = {}
        self._closed = False

    def open(self, pending: Iterable[K] = ()) -> DelayedFetch[K]:
        """To be ended by `end`, whatever happens."""
        return DelayedFetch(pending, closed=self._closed)

    @contextmanager
    def delayed(self, partitions: Iterable[PartitionId]) -> Iterator[DelayedFetch[PartitionId]]:
        """A delayed fetch that hears of every change of `partitions` inside the block."""
        delayed: DelayedFetch[PartitionId] = self.open()
        for partition in partitions:
            self.watch(delayed, partition, partition)
        try:
            yield delayed
        finally:
            self.end(delayed)

    def watch(self, delayed: DelayedFetch[K], key: K, partition: PartitionId) -> None:
        """Whatever happens to the partition from now on makes `key` pending; what it named before is forgotten."""
        if delayed.watched.get(key) != partition and not delayed.is_closed:
            self.forget(delayed, key)
            delayed.watched[key] = partition
            self._by_partition.setdefault(partition, set()).add((delayed, key))

    def forget(self, delayed: DelayedFetch[K], key: K) -> None:
        partition = delayed.watched.pop(key, None)
        if partition is not None:
            watching = self._by_partition[partition]
            watching.discard((delayed, key))
            if not watching:
                del self._by_partition[partition]

    def end(self, delayed: DelayedFetch[Any]) -> None:
        """It does not sleep any longer, and hears of nothing more in a moment: a session may have thousands."""
        delayed.close()
        for key in list(islice(delayed.watched, _FORGOTTEN_AT_ONCE)):
            self.forget(delayed, key)
        if delayed.watched:
            asyncio.get_running_loop().call_soon(self.end, delayed)

    async def park(self, delayed: DelayedFetch[Any], deadline: float, missing_bytes: int) -> bool:
        """`delayed.sleep`, counted."""
        self.parked += 1
        try:
            return not self._closed and await delayed.sleep(deadline, missing_bytes)
        finally:
            self.parked -= 1

    def on_bytes(self, partition: PartitionId, size_bytes: int) -> None:
        """More bytes can be read."""
        for delayed, _ in self.touch(partition):
            delayed.on_bytes(size_bytes)

    def wake(self, partition: PartitionId) -> None:
        """Leadership, epoch, high watermark or existence changed: delayed fetches look again."""
        for delayed, _ in self.touch(partition):
            delayed.wake()

    def touch(self, partition: PartitionId) -> Collection[_Watching]:
        """Note a change that belongs in the next response, but is no reason for one. Return the partition's watchers.

        An idle watcher is notified of the first change only: its next look at what is pending watches again.
        """
        watching = self._by_partition.get(partition, ())
        for delayed, key in tuple(watching):
            delayed.pending[key] = None
            if delayed.is_idle:
                self.forget(delayed, key)
        return watching

    @property
    def partitions(self) -> Collection[PartitionId]:
        """For which something is delayed."""
        return self._by_partition.keys()

    def close(self) -> None:
        """No fetch waits any more: what is delayed is answered with what there is, for the broker shuts down."""
        self._closed = True
        for waiting in self._by_partition.values():
            for delayed, _ in waiting:
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


class ParkedFollowerFetch(DelayedFetch[PartitionId]):
    """The fetches of a follower's session: one at a time, and how many have come."""

    def __init__(self) -> None:
        super().__init__()
        self.turn: Final = asyncio.Lock()
        self.requests = 0
        self.watermarks_at = 0.0
        """When the high watermarks are due that have moved where nothing else has (the loop's time)."""


Session = FollowerSession[ParkedFollowerFetch]
Sessions = FollowerSessions[ParkedFollowerFetch]
