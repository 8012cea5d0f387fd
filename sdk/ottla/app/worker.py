"""Runs one handler: reads records, calls the handler and commits.

All state belongs to the event loop. The consumer has a thread of its own, on which it is polled, commits, and reports
rebalances. That thread calls into the loop and waits for it, never the other way round.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from ottla.app.attempts import Attempts, HandlingOutcome, Work
from ottla.app.context import Send
from ottla.app.handler import RecordHandler
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.consumer.batch import Batch
from ottla.consumer.completed_fetch import first_offset, offset_after
from ottla.consumer.consumer import Consumer
from ottla.consumer.group.listener import Partitions, RebalanceListener
from ottla.errors import (
    CommitFailedError,
    OttlaError,
    RebalanceInProgressError,
    RetriableError,
    UnknownTopicError,
    WakeupError,
)
from ottla.machines.lanes import Job, Lanes
from ottla.machines.progress import RecordsInFlight
from ottla_core.model import TopicPartition
from ottla_core.plural import counted
from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.app")

T = TypeVar("T")

_POLL_S: Final = 0.5
_POLL_LEAST_S: Final = 0.01
_MOST_AT_ONCE: Final = 500
_TICK_S: Final = 0.1
"""How often the group's member may act while there is no room to read more."""

_COMMIT_S: Final = 5.0
_COMMIT_AGAIN_S: Final = 0.2
_GRACE_S: Final = 5.0
_RECORD_BYTES: Final = 256
"""Roughly what a record takes besides its key, value and headers."""


class Worker:
    """Runs one handler. `drain_s` bounds the wait for running handlers when partitions are revoked or the app stops."""

    def __init__(
        self,
        handler: RecordHandler,
        consumer: Mapping[str, Any],
        send: Send,
        on_failure: Callable[[BaseException], None],
        drain_s: float,
    ) -> None:
        self.attempts: Final = Attempts(handler, send, on_failure)
        self.lanes: Final[Lanes[Work]] = Lanes(handler.concurrency)
        self._in_flight: Final = RecordsInFlight()
        self._handler: Final = handler
        self._on_failure: Final = on_failure
        self._drain_s: Final = drain_s
        self._loop: Final = asyncio.get_running_loop()
        self._changed: Final = asyncio.Event()
        self._tasks: Final[dict[asyncio.Task[None], Job[Work]]] = {}
        self._stopping = False
        self._is_full = False
        self._largest_bytes = handler.max_in_flight_bytes  # so that the first poll, with no size known, takes one
        self._poll_s: Final = max(_POLL_LEAST_S, min(_POLL_S, handler.commit_interval_s))
        self._commit_at = self._loop.time() + handler.commit_interval_s
        self._commit_again_at = 0.0
        self._consumer: Final = consumer_of(handler, consumer, _Rebalances(self))
        self._consumer.reader.keeps_unreadable = True
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix=self._consumer.client_id)

    async def run(self) -> None:
        """Work until `stop`, or until the consumer raises; then wait for running handlers, and commit."""
        try:
            with suppress(WakeupError):  # `stop` raises it
                while not self._stopping:
                    await self._read()
                    self._start_jobs()
                    if self._is_commit_due():
                        await self._commit()
        finally:
            self._stopping = True
            await self._close()

    def stop(self) -> None:
        """Start no more handlers. Call it in the loop's thread."""
        self._stopping = True
        self._changed.set()
        self._consumer.wakeup()

    # ---- reading -------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self._changed.clear()
        room = self._room()
        self._is_full = not room
        if room:
            await self._take(await self._on_thread(self._consumer.poll, self._poll_s, max_records=room))
            return
        await self._on_thread(
            self._consumer.reader.gather, 0, 0.0, 0.0
        )  # lets the group's member act, and reads nothing
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), _TICK_S)

    def _room(self) -> int:
        """Return how many records may be read now; 0 until a quarter of the room is free, so that polls are few."""
        handler = self._handler
        records = handler.max_in_flight - self._in_flight.count
        size_bytes = handler.max_in_flight_bytes - self.lanes.size_bytes
        if records < max(1, handler.max_in_flight // 4) or size_bytes < max(1, handler.max_in_flight_bytes // 4):
            return 0
        return min(records, _MOST_AT_ONCE, max(1, size_bytes // self._largest_bytes))

    async def _take(self, batch: Batch[bytes, bytes]) -> None:
        by_key = self._handler.order == "key"
        sizes: list[int] = []
        for partition, part in batch.segments:
            progress = self._in_flight.of(partition, first_offset(part), batch.topic_ids.get(partition))
            for raw in part:
                sizes.append(_size_bytes(raw))
                progress.begin(raw[0], offset_after(raw))
                lane = (raw[0] if raw[2] is None else raw[2]) if by_key else None
                self.lanes.add(Job(partition, lane, sizes[-1], (raw, progress)))
        self._largest_bytes = max(sizes, default=self._largest_bytes)

    # ---- handling ------------------------------------------------------------------------------------------------

    @property
    def _starts_jobs(self) -> bool:
        return not self._stopping

    def _start_jobs(self) -> None:
        while self._starts_jobs and (job := self.lanes.next()) is not None:
            task = self._loop.create_task(self._run_job(job))
            self._tasks[task] = job
            task.add_done_callback(self._on_task_done)

    async def _run_job(self, job: Job[Work]) -> None:
        (offset, *_), progress = job.work
        outcome = HandlingOutcome.LEFT
        try:
            outcome = await self.attempts.run(job)
        finally:
            if outcome is HandlingOutcome.AGAIN:
                self.lanes.park(job)
                self._loop.call_later(self._handler.pause_s(job.attempts), self._try_again, job)
            else:
                self.lanes.finish(job)
            if outcome is HandlingOutcome.DONE:
                progress.finish(offset)

    def _try_again(self, job: Job[Work]) -> None:
        self.lanes.unpark(job)
        self._start_jobs()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
        self._start_jobs()
        if self._is_full and (self._room() or self._is_commit_due()):
            self._changed.set()

    # ---- committing ----------------------------------------------------------------------------------------------

    def _is_commit_due(self) -> bool:
        """Return whether to commit: at each interval, and once half of `max_in_flight` waits only for that."""
        now = self._loop.time()
        due = now >= self._commit_at or 2 * self._in_flight.front >= self._handler.max_in_flight
        return due and now >= self._commit_again_at

    async def _commit(self) -> None:
        self._commit_at = self._loop.time() + self._handler.commit_interval_s
        self._commit_again_at = 0.0
        if offsets := self._in_flight.to_commit():
            await self._commit_these(offsets)

    async def _commit_these(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            await self._on_thread(self._consumer.commit, self._in_topics(offsets), timeout=_COMMIT_S)
        except (CommitFailedError, RebalanceInProgressError, RetriableError) as error:
            is_gone = isinstance(error, UnknownTopicError)
            if is_gone and len(offsets) > 1:  # the error does not say which topic
                for partition, offset in offsets.items():
                    await self._commit_these({partition: offset})
                return
            if is_gone:
                self._in_flight.leave(offsets)
            else:
                self._commit_again_at = self._loop.time() + _COMMIT_AGAIN_S
            logger.info("group %s: %s", self._handler.group, error)
        else:
            self._in_flight.on_committed(offsets)

    def _in_topics(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """Return the offsets with the ids of the topics that the records were read from."""
        return {p: OffsetAndMetadata(offset, topic_id=self._in_flight.topic_id(p)) for p, offset in offsets.items()}

    # ---- giving up -----------------------------------------------------------------------------------------------

    async def hand_back(self, partitions: Partitions) -> Offsets:
        """Stop work on partitions that go to other members: start nothing more, wait for running handlers, and return
        the offsets to commit."""
        self._in_flight.give_up(partitions)
        self.lanes.drop(partitions)
        running = [task for task, job in self._tasks.items() if job.partition in partitions]
        if running:
            _, late = await asyncio.wait(running, timeout=self._drain_s)
            if late:
                logger.warning(
                    "group %s: %s did not finish within %g s; the records will be handled again",
                    self._handler.group,
                    counted(len(late), "handler"),
                    self._drain_s,
                )
            if self._handler.is_coroutine:
                for task in [task for task in running if task in late]:
                    task.cancel()
        return self._in_topics(self._in_flight.to_commit(partitions))

    def forget(self, partitions: Partitions) -> None:
        """Forget partitions that other members already have. Their running handlers go on, and count for nothing."""
        self.lanes.drop(partitions)
        self._in_flight.forget(partitions)

    async def _close(self) -> None:
        """Close the consumer, which hands all partitions back, and so waits and commits."""
        try:
            await self._on_thread(self._consumer.close)
        finally:
            self._thread.shutdown(wait=False)
            self.attempts.close()
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=_GRACE_S) if left else None

    async def _on_thread(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        return await self._loop.run_in_executor(self._thread, functools.partial(call, *arguments, **named))

    # ---- on the consumer's thread --------------------------------------------------------------------------------

    def on_revoked(self, partitions: Partitions) -> None:
        """Wait until the loop hands the partitions back, and commit."""
        try:
            offsets = self._run_in_loop(self.hand_back(partitions), self._drain_s + _GRACE_S)
            if offsets:
                self._commit_last(offsets)
        except (OttlaError, TimeoutError) as error:
            logger.warning(
                "group %s: records will be handled again, because their offsets were not committed: %s",
                self._handler.group,
                error,
            )
        self.on_lost(partitions)

    def _commit_last(self, offsets: Offsets) -> None:
        try:
            self._consumer.commit(offsets, timeout=_COMMIT_S)
        except WakeupError:  # a `stop` came just now
            self._consumer.commit(offsets, timeout=_COMMIT_S)

    def on_lost(self, partitions: Partitions) -> None:
        """Make the loop forget the partitions before it gets any records read afterwards."""
        self._loop.call_soon_threadsafe(self.forget, partitions)

    def _run_in_loop(self, question: Coroutine[Any, Any, T], timeout: float) -> T:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(timeout)


def consumer_of(
    handler: RecordHandler, arguments: Mapping[str, Any], listener: RebalanceListener | None = None
) -> Consumer[bytes, bytes]:
    """Return the consumer for a handler. Raises ConfigError for invalid arguments; opens nothing yet."""
    return Consumer(
        *handler.topics,
        group=handler.group,
        commit="manual",
        key="bytes",
        value="bytes",
        listener=listener,
        **arguments,
    )


class _Rebalances(RebalanceListener):
    def __init__(self, worker: Worker) -> None:
        self._worker: Final = worker

    def on_revoked(self, partitions: Partitions) -> None:
        self._worker.on_revoked(partitions)

    def on_lost(self, partitions: Partitions) -> None:
        self._worker.on_lost(partitions)


def _size_bytes(raw: RawRecord) -> int:
    key, value, headers = raw[2:5]
    named = sum(len(name) + len(text or b"") for name, text in headers)
    return _RECORD_BYTES + len(key or b"") + len(value or b"") + named
