"""A broker's background work: checkpoints, retention, flushes by time, freeing the space of deleted logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import compress

from ottla_broker.config import BrokerConfig
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.securing import secure_and_tidy
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import Clock
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.event_loop.tasks import end_task

_log = logging.getLogger(__name__)

_TICK_S = 1.0
_SECURING_S = 1.0
"""How long a turn goes on to secure logs, because the other steps wait meanwhile. The rest has the next turn."""


class Maintenance:
    """A component with one task, which ticks once a second. Work that waits for the disk runs in a thread."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: ReplicaTable,
        log_dir: Callable[[], LogDir],
        clock: Clock,
        threads: DiskThreads,
        on_disk_failure: Callable[[OttlaError], None],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._log_dir = log_dir
        self._clock = clock
        self._threads = threads
        self._on_disk_failure = on_disk_failure
        self._task: asyncio.Task[None] | None = None
        self._reported: dict[str, str] = {}
        self._unsecured: dict[Replica, None] = {}
        """Replicas with segments that are due and wait to be secured, the one that has waited longest first."""

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="maintenance")

    async def stop(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        checkpointed_at = retained_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._clock.monotonic()
            await self._try(self._flush_by_time)
            if now - retained_at >= self._config.retention_check_interval_s:
                retained_at = now
                await self._try(self._tidy)
                await self._try(self._measure_strays)
            await self._try(self._secure)
            if now - checkpointed_at >= self._config.checkpoint_interval_s:
                checkpointed_at = now
                await self._try(self._secure_starts)
                await self._try(self._checkpoint)
                await self._try(self._renew_vouch)
            await self._try(self._remove_deleted)

    async def _try(self, step: Callable[[], Awaitable[object]]) -> None:
        """Run a step. If it fails, the others go on, and it is tried again when it is next due."""
        try:
            await step()
        except Exception as error:
            self._on_error(step.__name__, error)
        else:
            self._reported.pop(step.__name__, None)

    def _on_error(self, step: str, error: Exception) -> None:
        """Log an error once, because a disk may be full for long."""
        if self._reported.get(step) != str(error):
            self._reported[step] = str(error)
            _log.error("maintenance: %s", error, exc_info=None if isinstance(error, OttlaError) else error)
        if isinstance(error, OttlaError) and self._log_dir().disk.failure:
            self._on_disk_failure(error)

    async def _flush_by_time(self) -> None:
        now_ms = self._clock.wall_ms()

        def flush(replica: Replica) -> None:
            if replica.log.is_flush_due(now_ms):
                replica.disk.start_flush()

        await sliced(flush, list(self._replicas.flushed_by_time))

    async def _tidy(self) -> None:
        """Apply retention to every log. `_secure` does it again where a thread first has to store what only the
        segments show that are due."""
        now_ms, replicas = self._clock.wall_ms(), list(self._replicas.all())
        unsecured = await sliced(partial(self._tidy_one, now_ms), replicas)
        self._unsecured |= dict.fromkeys(compress(replicas, unsecured))

    async def _secure(self) -> None:
        ends_at = self._clock.monotonic() + _SECURING_S
        while self._unsecured and self._clock.monotonic() < ends_at:
            replica = next(iter(self._unsecured))
            del self._unsecured[replica]
            if self._replicas.get(replica.id) is not replica:
                continue
            try:
                await secure_and_tidy(replica, self._replicas, self._threads, self._clock.wall_ms())
                self._reported.pop(f"securing {replica}", None)
            except Exception as error:  # this partition alone has failed
                self._on_error(f"securing {replica}", error)

    def _tidy_one(self, now_ms: int, replica: Replica) -> bool:
        """Apply retention to one log, and return whether segments wait to be secured."""
        if self._replicas.get(replica.id) is not replica:
            return False  # it has gone between two slices
        try:
            replica.tidy(now_ms)
            self._reported.pop(f"tidying {replica}", None)
        except Exception as error:  # this partition alone has failed
            self._on_error(f"tidying {replica}", error)
        return replica.log.unsecured_until > 0

    async def _measure_strays(self) -> None:
        await self._threads.keep(self._log_dir().measure_strays)

    async def _secure_starts(self) -> None:
        await self._threads.keep(self._log_dir().secure_starts)

    async def _checkpoint(self) -> None:
        await self._threads.keep(self._log_dir().checkpoint, self._replicas.high_watermarks())

    async def _renew_vouch(self) -> None:
        await self._threads.keep(self._log_dir().renew_vouch)

    async def _remove_deleted(self) -> None:
        await self._threads.keep(self._log_dir().remove_deleted)
