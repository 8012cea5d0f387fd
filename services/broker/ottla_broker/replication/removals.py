"""Logs of partitions that are no longer this broker's. They are renamed away in the background, many at a time.

Only a partition with the same id waits for it, which is rare: a topic that is created again has another id. If a stop
finds removals undone, the next start sets those logs aside (rule 24).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Final

from ottla_broker.replication.replica import Replica
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_core.errors import OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import PartitionId
from ottla_core.rpc.retry import Backoff

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 200
"""How many directories are renamed under one sync of their parent."""
_STOP_S: Final = 3.0


class Removals:
    """A component that removes logs."""

    def __init__(self, log_dir: Callable[[], LogDir], threads: DiskThreads) -> None:
        self._log_dir = log_dir
        self._threads = threads
        self._waiting: dict[PartitionId, Replica] = {}
        self._added = asyncio.Event()
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="removals")

    async def stop(self) -> None:
        """Finish the removals under way, within a time limit."""
        if self._task is None or self._task.done():
            return
        try:
            async with asyncio.timeout(_STOP_S), self._changed:
                await self._changed.wait_for(lambda: not self._waiting)
        except TimeoutError:
            _log.warning(
                "deleted partitions that stay in the data directory until the next start sets them aside: %d",
                self.count,
            )
        await end_task(self._task)

    @property
    def count(self) -> int:
        return len(self._waiting)

    def add(self, replica: Replica) -> None:
        """Remove from the disk a replica that is closed."""
        self._waiting[replica.id] = replica
        self._added.set()

    def has(self, partition_id: PartitionId) -> bool:
        return partition_id in self._waiting

    async def until_gone(self, partition_id: PartitionId) -> None:
        """Return once no log of that partition waits to be removed, so that another may take its place."""
        if partition_id in self._waiting:
            async with self._changed:
                await self._changed.wait_for(lambda: partition_id not in self._waiting)

    async def _run(self) -> None:
        backoff = Backoff(first_s=0.5, most_s=10.0)
        while True:
            await self._added.wait()
            batch = dict(islice(self._waiting.items(), _AT_ONCE))
            try:
                await self._remove(batch)
                backoff.reset()
            except Exception as error:
                known = isinstance(error, OttlaError)
                _log.error("can't delete partitions yet (%d), retrying: %s", len(batch), error, exc_info=not known)
                await asyncio.sleep(backoff.next())
            batch.clear()  # not kept until the next batch is removed
            if not self._waiting:
                self._added.clear()

    async def _remove(self, batch: dict[PartitionId, Replica]) -> None:
        """Remove the logs of a batch. They are closed only when no thread has any of them in hand."""
        await asyncio.gather(*(replica.disk.until_whole() for replica in batch.values()))
        log_dir = self._log_dir()
        try:
            await asyncio.shield(self._threads.keep(log_dir.delete, list(batch)))
        finally:
            async with self._changed:
                for partition_id in [partition_id for partition_id in batch if partition_id not in log_dir.logs]:
                    del self._waiting[partition_id]
                self._changed.notify_all()
