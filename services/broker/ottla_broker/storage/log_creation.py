"""The logs of partitions that are new to this broker. They are created in batches: while one batch is created, the next
one gathers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir, NewLog
from ottla_core.clock import Clock
from ottla_core.model import PartitionId

_AT_ONCE: Final = 500
"""How many logs are created together. One sync serves all of them, and no log waits for many more."""


class LogCreation:
    def __init__(self, log_dir: Callable[[], LogDir], clock: Clock, threads: DiskThreads) -> None:
        self._log_dir: Final = log_dir
        self._clock: Final = clock
        self._threads: Final = threads
        self._due: list[tuple[NewLog, asyncio.Future[Log]]] = []
        self._work: asyncio.Task[None] | None = None

    async def create(self, partition: PartitionId, topic: str, config: LogConfig) -> Log:
        """Return the partition's log, which is created if it does not exist. Raises KAFKA_STORAGE_ERROR."""
        made: asyncio.Future[Log] = asyncio.get_running_loop().create_future()
        self._due.append((NewLog(partition, topic, config), made))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._create_all(), name="log-creation")
        return await made

    async def _create_all(self) -> None:
        while self._due:
            batch, self._due = self._due[:_AT_ONCE], self._due[_AT_ONCE:]
            logs: Sequence[Log | Exception]
            try:
                create_all = self._log_dir().create_all
                logs = await self._threads.keep(create_all, [new for new, _ in batch], now_ms=self._clock.wall_ms())
            except Exception as error:
                logs = [error] * len(batch)
            for (_, made), log in zip(batch, logs, strict=True):
                if made.done():  # the caller that waited was cancelled
                    continue
                if isinstance(log, Exception):
                    made.set_exception(log)
                else:
                    made.set_result(log)
