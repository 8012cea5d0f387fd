"""Consumer for asyncio: `async for record in consumer`. A thread fetches and opens the records, a batch at a time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

from ottla.aio.arguments import same_arguments
from ottla.client.by_partition import ByPartition
from ottla.client.list_offsets import OffsetSpec
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata, Offsets, OffsetsLike
from ottla.client.settings import positive
from ottla.client.units import Duration, seconds
from ottla.consumer.batch import Batch
from ottla.consumer.consumer import Consumer as SyncConsumer
from ottla.consumer.group.commit_round import OnCommitted
from ottla.consumer.group.reader import GroupReader
from ottla.errors import OttlaError, WakeupError
from ottla.generics import K, V
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.record import Record
from ottla_core.model import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")

_STEP_S: Final = 0.5
"""The longest that the thread waits for records at a time, so that it is soon free for another call."""

_READ_AHEAD: Final = 500
"""How many records `async for` takes at a time."""


class Consumer(Generic[K, V]):
    """Reads records.

    It takes the same arguments as ottla.Consumer. Use a consumer in one event loop only, with one reader at a time.
    With a group, the callbacks `on_assigned`, `on_revoked` and `on_lost` are plain functions. They run on the
    consumer's thread, so they must not wait for this consumer.

    If you cancel a read or leave a loop, no record is lost: the next read returns the records that were fetched but not
    returned. Until then, positions and commits do not include them.
    """

    @same_arguments(SyncConsumer[K, V])
    def __init__(self, *topics: str, **arguments: Any) -> None:
        self._sync: SyncConsumer[K, V] = SyncConsumer(*topics, **arguments)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ottla-aio-{self._sync.client_id}")
        self._under_way: asyncio.Future[Batch[K, V]] | None = None
        self._turn = asyncio.Lock()  # held by the task that uses the thread
        self._rest: Iterator[Record[K, V]] | None = None  # the records of a loop that was left, without a group

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Iterate record by record until the stop, or until `close`. Raises like iterating over ottla.Consumer."""
        reader = self._sync.reader
        by_polls = reader if isinstance(reader, GroupReader) else None
        while True:
            if self._rest is None or by_polls:
                batch = await self._take(by_polls.stride.next() if by_polls else _READ_AHEAD, _STEP_S, 0.0)
                if not batch and self._sync.finished:
                    return
                if by_polls:
                    by_polls.stride.begin()
                self._rest = reader.hand_out(batch)
            rest = self._rest
            try:
                for record in rest:
                    yield record
            except GeneratorExit:
                raise  # between two records
            except BaseException:
                self._rest = None  # a generator that has raised is at its end
                raise
            if self._rest is rest:
                self._rest = None

    async def poll(self, timeout: Duration = 1.0, *, max_records: int | None = None) -> Batch[K, V]:
        """Return the next batch, like `ottla.Consumer.poll`."""
        limit = self._sync.max_poll_records if max_records is None else positive(max_records, "max_records")
        self._sync._note_poll(True)
        batch = await self._first(limit, seconds(timeout, "timeout"), 0.0)
        self._sync.reader.on_handed_out()
        return batch

    async def batches(self, max_records: int = 500, max_wait: Duration = 0.5) -> AsyncIterator[Batch[K, V]]:
        """Iterate batch by batch, like `ottla.Consumer.batches`."""
        limit, wait = positive(max_records, "max_records"), seconds(max_wait, "max_wait")
        self._sync._note_poll(False)
        while batch := await self._first(limit, float("inf"), wait):
            self._sync.reader.on_handed_out()
            yield batch

    async def commit(self, offsets: OffsetsLike | None = None, *, timeout: Duration = 60.0) -> None:
        """Commit offsets, like `ottla.Consumer.commit`."""
        await self._call(self._sync.commit, offsets, timeout=timeout)

    async def commit_async(self, callback: OnCommitted | None = None, *, offsets: OffsetsLike | None = None) -> None:
        """Commit offsets like `ottla.Consumer.commit_async`. The event loop calls `callback`, a plain function."""
        loop = asyncio.get_running_loop()

        def on_committed(committed: Offsets, error: OttlaError | None) -> None:
            if callback is not None:
                loop.call_soon_threadsafe(callback, committed, error)

        await self._call(self._sync.commit_async, on_committed, offsets=offsets)

    async def committed(
        self, *partitions: tuple[str, int], timeout: Duration = 60.0
    ) -> ByPartition[OffsetAndMetadata | None]:
        """Return committed offsets, like `ottla.Consumer.committed`."""
        return await self._call(self._sync.committed, *partitions, timeout=timeout)

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return the identity in the group, like `ottla.Consumer.group_metadata`."""
        return self._sync.group_metadata

    def go_back_unless(self, outcome: TransactionOutcome) -> None:
        """For producers: go back to the committed offsets, like `ottla.Consumer.go_back_unless`."""
        self._sync.go_back_unless(outcome)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group rebalance, like `ottla.Consumer.enforce_rebalance`."""
        self._sync.enforce_rebalance(reason)

    async def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions, like `ottla.Consumer.assignment`."""
        return await self._call(self._sync.assignment)

    async def position(self, partition: tuple[str, int]) -> int:
        """Return a position, like `ottla.Consumer.position`."""
        return await self._call(self._sync.position, partition)

    async def seek(
        self, partition: tuple[str, int], offset: int, *, stop: int | None = None, topic_id: bytes | None = None
    ) -> None:
        """Set a position, like `ottla.Consumer.seek`."""
        await self._call(self._sync.seek, partition, offset, stop=stop, topic_id=topic_id)

    async def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go to the beginning of the log, like `ottla.Consumer.seek_to_beginning`."""
        await self._call(self._sync.seek_to_beginning, *partitions)

    async def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go to the end of the log, like `ottla.Consumer.seek_to_end`."""
        await self._call(self._sync.seek_to_end, *partitions)

    async def seek_to_time(self, moment: datetime | timedelta, *partitions: tuple[str, int]) -> None:
        """Go to a time, like `ottla.Consumer.seek_to_time`."""
        await self._call(self._sync.seek_to_time, moment, *partitions)

    async def seek_to_committed(self, *partitions: tuple[str, int]) -> None:
        """Go to the committed offsets, like `ottla.Consumer.seek_to_committed`."""
        await self._call(self._sync.seek_to_committed, *partitions)

    async def offsets(self, at: OffsetSpec = "latest") -> ByPartition[int | None]:
        """Look up offsets, like `ottla.Consumer.offsets`."""
        return await self._call(self._sync.offsets, at)

    async def lag(self) -> ByPartition[int]:
        """Return the lag, like `ottla.Consumer.lag`."""
        ends = await self.offsets()
        return ByPartition({p: max(0, (end or 0) - await self.position(p)) for p, end in ends.items()})

    async def caught_up(self) -> bool:
        """Return whether the consumer has caught up, like `ottla.Consumer.caught_up`."""
        return await self._call(self._sync.caught_up)

    async def pause(self, *partitions: tuple[str, int]) -> None:
        """Pause partitions, like `ottla.Consumer.pause`."""
        await self._call(self._sync.pause, *partitions)

    async def resume(self, *partitions: tuple[str, int]) -> None:
        """Resume partitions, like `ottla.Consumer.resume`."""
        await self._call(self._sync.resume, *partitions)

    async def paused(self) -> set[TopicPartition]:
        """Return the paused partitions, like `ottla.Consumer.paused`."""
        return await self._call(self._sync.paused)

    def wakeup(self) -> None:
        """Make the waiting task raise WakeupError, like `ottla.Consumer.wakeup`.

        Any task or thread may call this method, which is not a coroutine.
        """
        self._sync.wakeup()

    @property
    def finished(self) -> bool:
        """Whether the consumer will return no more records, like `ottla.Consumer.finished`.

        Records that `async for` has read ahead do not count as returned.
        """
        return self._under_way is None and self._sync.finished

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the consumer, like `ottla.Consumer.metrics`."""
        return self._sync.metrics

    async def close(self) -> None:
        """Close the consumer like `ottla.Consumer.close`.

        If a task is iterating over the consumer, its `async for` loop ends.
        """
        await self._close(self._sync.close)

    async def _close(self, close: Callable[[], None]) -> None:
        if self._sync.use_guard.guard.foreign:
            return
        try:
            await asyncio.to_thread(close)
        finally:
            self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(functools.partial(self._sync.__exit__, kind, error, traceback))

    # ---- one thread --------------------------------------------------------------------------------------------------

    async def _call(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make the call on the thread. It first takes back what a cancelled read has gathered meanwhile."""
        self._sync.use_guard.guard.check_process()  # in a child the executor has no thread
        async with self._turn:
            if self._under_way is not None:
                await self._end(self._under_way)
            return await self._on_thread(call, *args, **kwargs)

    async def _on_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        bound = functools.partial(call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, bound)

    async def _first(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """Like Reader.gather, in steps; empty if the time is over, the stop is reached, or the consumer is closed."""
        loop = asyncio.get_running_loop()
        deadline_at = loop.time() + wait_first
        while True:
            left = max(0.0, deadline_at - loop.time())
            batch = await self._take(limit, min(left, _STEP_S), wait_more)
            if batch or left <= 0 or self._sync.finished:
                return batch

    async def _take(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """Gather once; what a cancelled gathering has left comes first, unless it is too much.

        The records stay "in hand", as the reader calls it, until the awaiting task takes them, before its next await.
        """
        self._sync.use_guard.guard.check_process()
        async with self._turn:
            if self._under_way is not None and self._sync.reader.goes_back:
                await self._end(self._under_way)
            while True:
                fresh = self._under_way is None
                if self._under_way is None:
                    gathering = self._on_thread(self._sync.reader.gather, limit, wait_first, wait_more)
                    self._under_way = asyncio.ensure_future(gathering)
                await asyncio.wait([self._under_way])  # a cancellation ends this wait, not the gathering
                under_way, self._under_way = self._under_way, None
                batch = under_way.result()
                if fresh or 0 < len(batch) <= limit:
                    return batch

    async def _end(self, under_way: asyncio.Future[Batch[K, V]]) -> None:
        """Let a gathering that is no longer awaited end. A wakeup that ends it is kept for the next one."""
        self._sync._fetcher.hurry(True)
        try:
            await asyncio.wait([under_way])
        finally:
            self._sync._fetcher.hurry(False)
        self._under_way = None
        if isinstance(error := under_way.exception(), WakeupError):
            self._sync._fetcher.interrupt(error)
