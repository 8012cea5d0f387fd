"""One partition's log as a broker holds it: read, flushed, truncated, and watched for the end of its disk.

A log's methods may wait for the disk, and the loop must not: while it waits, leases expire. So this class knows which
calls go to a thread and which thread pool takes them. A read that the page cache can serve stays on the loop, which
saves the way to a thread. An append stays on the loop too, because it must not yield (I1).

It also sees to it that one thread at a time has the log in hand (I26). A cancelled caller can't stop a thread, so the
work is shielded, and what has to follow it is done by a callback and not by the caller.

It knows nothing of leaders and high watermarks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from ottla_broker.machines.offsets import ReadLimit
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.validator import Walk, check_appendable, check_imported
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId
from ottla_core.records.batch import ANY_OFFSET, Buffer, whole_batches
from ottla_core.records.walk import SlowWalkError

_log = logging.getLogger(__name__)


class WalkedBatches(NamedTuple):
    """Batches ready to be appended, after they were walked under `config`."""

    records: Buffer
    config: LogConfig


class DiskLog:
    """A log, and the threads in which it is read, checked, flushed and truncated.

    Code that writes to the log does so on the loop, within `watching_the_disk`, and never while `is_in_a_thread`.
    """

    def __init__(
        self,
        partition_id: PartitionId,
        topic: str,
        log: Log,
        threads: DiskThreads,
        clock: Clock,
        on_disk_failure: Callable[[OttlaError], None],
    ) -> None:
        self.id: Final = partition_id
        self.topic: Final = topic
        self.log: Final = log
        self._threads: Final = threads
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure
        self._flushing: asyncio.Task[None] | None = None
        self._flush_failure = ""
        self._working: asyncio.Future[object] | None = None

    async def read(self, offset: int, max_bytes: int, limit_offset: ReadLimit, *, min_one_batch: bool) -> bytes:
        """Return whole batches from `offset` on, below `limit_offset`. A cold read waits in a thread.

        Raises OFFSET_OUT_OF_RANGE outside the log.
        """
        with self.watching_the_disk():
            hot = self.log.read_hot(offset, max_bytes, limit_offset, min_one_batch=min_one_batch)
            if hot is not None:
                return hot
            return await self._threads.read(
                lambda: self.log.read(offset, max_bytes, limit_offset, min_one_batch=min_one_batch)
            )

    async def aborted(self, offset: int, records: bytes) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions among `records`, which were read from `offset` on.

        Raises OFFSET_OUT_OF_RANGE if the log begins behind `offset` by now.
        """
        # Most reads are past the last aborted transaction, and cost no thread.
        if not records or not self.log.aborted.may_end_after(offset):
            return ()
        with self.watching_the_disk():
            end = whole_batches(records, ANY_OFFSET)[1]
            return await self._threads.read(self.log.aborted.between, offset, end)

    async def read_back(self, offset: int, max_bytes: int) -> bytes:
        """Read like `Log.read`, over everything that was appended, committed or not."""
        return await self._threads.look_up(self.log.read, offset, max_bytes, self.log.log_end_offset)

    async def walk(self, records: bytes, *, is_slow: bool = False) -> WalkedBatches:
        """Check what `Log.append` checks of batches, and bring them into their topic's codec. If that takes long, a
        thread does it.

        `is_slow` says that it is known to take long. Raises what `Log.append` raises.
        """
        config = self.log.config
        check = partial(check_appendable, records, config, self._clock.wall_ms(), transactional=True)
        if not is_slow:
            try:
                return WalkedBatches(check(walk=Walk.QUICK).records, config)
            except SlowWalkError:
                pass
        return WalkedBatches((await self._threads.work(check)).records, config)

    async def check_imported(self, records: bytes) -> None:
        """Check imported batches in a thread. Raises INVALID_RECORD and RECORD_LIST_TOO_LARGE."""
        await self._threads.work(check_imported, records, self.log.config)

    @property
    def must_flush(self) -> bool:
        """It tells whether flush.messages requires an fsync of what was appended before it is acknowledged."""
        return self.log.log_end_offset - self.log.recovery_point >= self.log.config.flush_messages

    async def flushed(self) -> None:
        """Return once everything that is appended now is fsynced. A call while a flush runs shares the next one."""
        end = self.log.log_end_offset
        # A flush that runs already may have begun before the last append, so one flush may not be enough. If a
        # truncation lowers the end in the meantime, the recovery point never reaches the old end.
        while self.log.recovery_point < min(end, self.log.log_end_offset):
            # The flush is shared, so a caller that is cancelled must not cancel it for the others.
            await asyncio.shield(self.start_flush())

    def start_flush(self) -> asyncio.Task[None]:
        """Return the flush that runs, or start one."""
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush(), name=f"flush-{self}")
            self._flushing.add_done_callback(self._on_flushed)
        return self._flushing

    async def _flush(self) -> None:
        with self.watching_the_disk():
            await self._threads.flush(self.log.flush, self._clock.wall_ms())

    def _on_flushed(self, done: asyncio.Task[None]) -> None:
        """Log a failure, once for each cause. No caller awaits most flushes; they are tried again when the next one is
        due."""
        error = None if done.cancelled() else done.exception()
        known = isinstance(error, OttlaError)
        # A partition that was deleted during its flush is no failure.
        closed = isinstance(error, OttlaError) and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not None and not closed and str(error) != self._flush_failure:
            _log.error("%s can't be flushed, retrying: %s", self, error, exc_info=None if known else error)
        self._flush_failure = "" if error is None else str(error)

    async def change(self, change: Callable[[], object], then: Callable[[], None]) -> None:
        """Change the log in a thread, as truncations do, and call `then` on the loop, even if the caller has given up
        waiting.

        No other thread has the log in hand until then.
        """
        assert self._working is None, f"{self}: another thread works on the log already"

        def on_changed(done: asyncio.Future[object]) -> None:
            self._working = None
            if not done.cancelled():
                done.exception()  # the caller gets the error, if it still waits
            # It is called after a failure, too: the truncation may have removed a part, and offsets must never point
            # behind the log's end.
            then()

        self._working = asyncio.ensure_future(self._threads.truncate(change))
        self._working.add_done_callback(on_changed)
        with self.watching_the_disk():
            await asyncio.shield(self._working)

    async def until_whole(self) -> None:
        """Return once no thread has the log in hand. The work goes on even if its caller has gone."""
        # Another truncation may begin before this task has its turn.
        while self._working is not None:
            await asyncio.wait({self._working})

    @property
    def is_in_a_thread(self) -> bool:
        """It tells whether a thread has the log in hand, so that nothing else may write to it."""
        return self._working is not None

    @contextmanager
    def watching_the_disk(self) -> Iterator[None]:
        """Report a disk that has failed for good. A full disk, or a log that was closed in the meantime, ends
        nothing."""
        try:
            yield
        except OttlaError as error:
            if self.log.is_offline:
                self._on_disk_failure(error)
            raise

    def __str__(self) -> str:
        return f"{self.topic}-{self.id.partition}"
