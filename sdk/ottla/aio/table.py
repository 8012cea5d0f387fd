"""Table for asyncio: reading values needs no await; waiting for changes and positions does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, overload

from ottla.aio.arguments import same_arguments
from ottla.client.units import Duration, seconds
from ottla.generics import K, V
from ottla.table.table import Table as SyncTable
from ottla.table.table import record_goal
from ottla.table.view import Goal, TableView, late_error
from ottla.table.watch import Change
from ottla.table.watch import Watch as SyncWatch
from ottla_core.event_loop.slices import Slice

D = TypeVar("D")


class Watch(Generic[K, V]):
    """An asynchronous iterator over changes that ends when the table is closed. See ottla.Watch."""

    def __init__(self, sync: SyncWatch[K, V], view: TableView) -> None:
        self._sync: Final = sync
        self._view: Final = view
        self._slice: Final = Slice()

    async def poll(self, timeout: Duration = 1.0) -> Change[K, V] | None:
        """Wait for the next change, like `ottla.Watch.poll`."""
        await _wait_for(self._view, self._sync.is_ready, seconds(timeout, "timeout"))
        if (change := self._sync.take()) is None:
            self._view.check()
        return change

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change[K, V]:
        """Return the next change, like ottla.Watch; a cancellation loses none."""
        await self._slice.rest()  # changes that are ready need no wait, and there may be a million
        while await _wait_for(self._view, self._sync.is_ready, None) and not self._sync.is_over:
            if (change := self._sync.take()) is not None:  # otherwise another task that iterates has taken it
                return change
        raise StopAsyncIteration


class Table(Generic[K, V]):
    """A table of the latest value of each key in a topic. It takes the same arguments as ottla.Table."""

    @same_arguments(SyncTable[K, V])
    def __init__(self, topic: str, **arguments: Any) -> None:
        self._sync: SyncTable[K, V] = SyncTable(topic, **arguments)

    def start(self) -> Self:
        """Start loading the table, like `ottla.Table.start`."""
        self._sync.start()
        return self

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of a key, like `ottla.Table.get`."""
        return self._sync.get(key, default)

    def __getitem__(self, key: K) -> V:
        return self._sync[key]

    def __contains__(self, key: object) -> bool:
        return key in self._sync

    def __len__(self) -> int:
        return len(self._sync)

    def __iter__(self) -> Iterator[K]:
        return iter(self._sync)

    def keys(self) -> Iterator[K]:
        """Iterate over the current keys, like `ottla.Table.keys`."""
        return self._sync.keys()

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over keys and values, like `ottla.Table.items`.

        You may await between items; the table may change in the meantime.
        """
        return self._sync.items()

    def watch(self, key: K | None = None) -> Watch[K, V]:
        """Start the table, and return changes for `async for`, like `ottla.Table.watch`."""
        return Watch(self._sync.watch(key), self._sync._view)

    @property
    def caught_up(self) -> bool:
        """Whether the table has caught up, like `ottla.Table.caught_up`."""
        return self._sync.caught_up

    @property
    def position(self) -> dict[int, int]:
        """The next offset of each partition, like `ottla.Table.position`."""
        return self._sync.position

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the table, like `ottla.Table.metrics`."""
        return self._sync.metrics

    async def wait_until_caught_up(self, timeout: Duration = 60.0) -> None:
        """Wait until the table has caught up, like `ottla.Table.wait_until_caught_up`."""
        await self._wait(Goal(), seconds(timeout, "timeout"))

    async def wait_for(self, partition: int, offset: int, timeout: Duration = 60.0) -> None:
        """Wait until the table reflects a record, like `ottla.Table.wait_for`."""
        await self._wait(record_goal(partition, offset), seconds(timeout, "timeout"))

    async def _wait(self, goal: Goal, timeout: float) -> None:
        view = self._sync._view
        with self._sync._aiming_at(goal):
            if not await _wait_for(view, lambda: view.has_reached(goal), timeout):
                raise late_error(view, goal, timeout)

    async def close(self) -> None:
        """Close the table, like `ottla.Table.close`."""
        await asyncio.to_thread(self._sync.close)

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


async def _wait_for(view: TableView, reached: Callable[[], bool], timeout: float | None) -> bool:
    """Like TableView.wait_for, in an event loop; None: for ever."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def on_change() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(changed.set)

    with view.listening(on_change), suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while not reached():
                await changed.wait()
                changed.clear()
            return True
    return reached()
