"""Parking without polling: a fetch that found too little sleeps here until enough was appended.

The order is Kafka's (rule 55): park first, then look again, then sleep. Whatever happens between the look and the
sleep wakes the waiter, which remembers it. A waiter ends once, by enough bytes, by a change of its partition, or by
its owner's deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla_core.model import PartitionId


class Waiter:
    """One parked fetch, over all its partitions."""

    __slots__ = ("_missing_bytes", "_woken")

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self._woken = asyncio.Event()

    async def sleep(self, deadline: float) -> bool:
        """Whether it was woken before `deadline` (the loop's time)."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    def expect(self, missing_bytes: int) -> None:
        """Sleep on until that many bytes more have come."""
        self._missing_bytes = missing_bytes
        self._woken.clear()

    def on_append(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._woken.set()

    def wake(self) -> None:
        self._woken.set()


class Waiters:
    def __init__(self) -> None:
        self._by_partition: Final[dict[PartitionId, set[Waiter]]] = {}

    @contextmanager
    def parked(self, partitions: Iterable[PartitionId], missing_bytes: int) -> Iterator[Waiter]:
        """A waiter that hears of every change of `partitions` inside the block."""
        waiter, places = Waiter(missing_bytes), set(partitions)
        for partition in places:
            self._by_partition.setdefault(partition, set()).add(waiter)
        try:
            yield waiter
        finally:
            for partition in places:
                waiting = self._by_partition[partition]
                waiting.discard(waiter)
                if not waiting:
                    del self._by_partition[partition]

    def on_append(self, partition: PartitionId, size_bytes: int) -> None:
        """Bytes became visible to consumers (the high watermark passed them)."""
        for waiter in self._by_partition.get(partition, ()):
            waiter.on_append(size_bytes)

    def wake(self, partition: PartitionId) -> None:
        """Leadership, epoch or existence changed: whoever waits must look again."""
        for waiter in self._by_partition.get(partition, ()):
            waiter.wake()

    def __len__(self) -> int:
        """Parked fetches, once per partition that they wait for."""
        return sum(len(waiting) for waiting in list(self._by_partition.values()))
