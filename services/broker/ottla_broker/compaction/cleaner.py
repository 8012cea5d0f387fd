"""Compaction of this broker's logs, its own and those that it follows: the dirtiest first, each in a worker process.

What a worker has written takes its place where the log is still what it was made of; else it is thrown away, and the
log's turn comes again. A log that can't be cleaned stays as it is, named in the log and counted, and is tried again at
longer and longer intervals; it holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.job import CleaningResult
from ottla_broker.compaction.settings import CleanerSettings, cleaner_settings
from ottla_broker.compaction.worker import run_worker
from ottla_broker.disk_threads import DiskThreads
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.storage import swap
from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId
from ottla_core.rpc.retry import Backoff
from ottla_core.slices import Slice
from ottla_core.tasks import end_tasks

_log = logging.getLogger(__name__)

_TRY_AGAIN_FIRST_S: Final = 15.0
_TRY_AGAIN_MOST_S: Final = 600.0


@dataclass(slots=True)
class Totals:
    """Of all cleanings so far."""

    runs: int = 0
    bytes_read: int = 0
    bytes_saved: int = 0
    seconds: float = 0.0
    ended_at_ms: int = 0
    """The last one; 0 before the first."""


@dataclass(slots=True)
class _Failure:
    """When the turn of a log is that could not be cleaned."""

    due_at: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_TRY_AGAIN_FIRST_S, _TRY_AGAIN_MOST_S))


class LogCleaner:
    """A component."""

    def __init__(
        self,
        metadata: MetadataFollower,
        replicas: ReplicaTable,
        broker_id: Callable[[], int],
        clock: Clock,
        threads: DiskThreads,
    ) -> None:
        self.totals: Final = Totals()
        self.dirtiest_ratio = 0.0
        """As of the last look."""
        self._metadata: Final = metadata
        self._replicas: Final = replicas
        self._broker_id: Final = broker_id
        self._clock: Final = clock
        self._threads: Final = threads
        self._failures: Final[dict[PartitionId, _Failure]] = {}
        self._running: Final[dict[PartitionId, asyncio.Task[None]]] = {}
        self._look: Final = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._metadata.on_change(self._on_image)
        self._task = asyncio.create_task(self._run(), name="log-cleaner")

    async def stop(self) -> None:
        await end_tasks([*([self._task] if self._task else ()), *self._running.values()])

    @property
    def uncleanable(self) -> int:
        """How many logs could not be cleaned when it was tried last."""
        return len(self._failures)

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if new.configs is not old.configs:
            self._look.set()

    async def _run(self) -> None:
        while True:
            settings = cleaner_settings(self._metadata.image, self._broker_id())
            self._look.clear()
            try:
                while settings.enabled and len(self._running) < settings.threads:
                    found = await self._dirtiest()
                    if found is None:
                        break
                    self._begin(*found, settings)
            except Exception:
                _log.exception("looking for logs to compact failed, trying on")
            try:
                async with asyncio.timeout(max(settings.backoff_s, 0.1)):
                    await self._look.wait()
            except TimeoutError:
                pass

    # ---- which one ---------------------------------------------------------------------------------------------------

    async def _dirtiest(self) -> tuple[Replica, Candidate] | None:
        """Those with a record that waits too long come before all others."""
        slice_, now_ms = Slice(), self._clock.wall_ms()
        found: list[tuple[Replica, Candidate]] = []
        ratios = [0.0]
        for replica in list(self._replicas.compacted):
            await slice_.rest()
            if self._replicas.get(replica.id) is not replica or replica.is_in_a_thread or replica.log.is_offline:
                continue
            try:
                candidate = _once_secured(replica, now_ms)
            except (OSError, OttlaError) as error:
                if self._may_be_cleaned(replica.id):
                    self._note_failure(replica, error)
                continue
            ratios.append(candidate.part.dirty_ratio)
            if self._may_be_cleaned(replica.id) and candidate.part.is_due(replica.log.config.least_dirty_ratio):
                found.append((replica, candidate))
        self.dirtiest_ratio = max(ratios)
        for id_ in self._failures.keys() - {replica.id for replica in self._replicas.compacted}:
            del self._failures[id_]
            if (former := self._replicas.get(id_)) is not None:  # its cleanup.policy is another
                former.log.compaction.failure = ""
        return max(found, key=lambda each: (each[1].part.is_overdue, each[1].part.dirty_ratio), default=None)

    def _may_be_cleaned(self, id_: PartitionId) -> bool:
        failure = self._failures.get(id_)
        return id_ not in self._running and (failure is None or failure.due_at <= self._clock.monotonic())

    # ---- cleaning one ------------------------------------------------------------------------------------------------

    def _begin(self, replica: Replica, candidate: Candidate, settings: CleanerSettings) -> None:
        def on_done(_: asyncio.Task[None]) -> None:
            del self._running[replica.id]
            self._look.set()

        task = asyncio.create_task(self._clean(replica, candidate, settings), name=f"compact-{replica}")
        self._running[replica.id] = task
        task.add_done_callback(on_done)

    async def _clean(self, replica: Replica, candidate: Candidate, settings: CleanerSettings) -> None:
        began_at = self._clock.monotonic()
        try:
            candidate = await self._secured(replica, candidate)
            result = await run_worker(candidate.job(settings, self._clock.wall_ms()))
            candidate.check_progress(result, settings)
            saved = await self._take(candidate, result)
        except Exception as error:
            await self._on_failure(replica, candidate, error)
            return
        self._failures.pop(replica.id, None)
        replica.log.compaction.failure = ""
        if saved is not None:
            replica.log.compaction.on_cleaned(result.end_offset, candidate.truncations)
            self._note(replica, result, saved, self._clock.monotonic() - began_at)

    async def _secured(self, replica: Replica, candidate: Candidate) -> Candidate:
        """Make its segments durable, and the recovery point on disk say so; return what may be cleaned then.

        On a full disk that may fail. What was durable before may still be cleaned, and makes room. Raises
        KAFKA_STORAGE_ERROR where there is nothing of that.
        """
        if candidate.is_secured:
            return candidate
        failure = None
        try:
            await self._threads.flush(replica.log.secure_sealed)
        except OttlaError as error:
            failure = error
        secured = Candidate.of(replica.log, replica.last_stable_offset, self._clock.wall_ms())
        if not secured.part.dirty_bytes:
            raise failure or _not_secured(replica)
        return secured

    def _note(self, replica: Replica, result: CleaningResult, saved: int, seconds: float) -> None:
        self.totals.runs += 1
        self.totals.bytes_read += result.bytes_read
        self.totals.bytes_saved += saved
        self.totals.seconds += seconds
        self.totals.ended_at_ms = self._clock.wall_ms()
        text = "%s is compacted up to %d: %d of %d records stay, %d bytes saved, %.1f s"
        _log.info(text, replica, result.end_offset, result.records_kept, result.records_read, saved, seconds)

    async def _take(self, candidate: Candidate, result: CleaningResult) -> int | None:
        """How many bytes less there are now; None where the log has changed meanwhile, and was not taken for clean."""
        saved = [await self._threads.keep(candidate.swap, cleaned) for cleaned in result.segments]
        return None if None in saved else sum(filter(None, saved))

    async def _on_failure(self, replica: Replica, candidate: Candidate, error: Exception) -> None:
        if self._replicas.get(replica.id) is not replica:
            return  # the topic is gone, or the partition has moved
        with suppress(OSError):  # the next cleaning writes over them
            await self._threads.keep(swap.remove_cleaned, replica.log.directory)
        if candidate.is_unchanged:  # else no wonder: its files are others by now
            self._note_failure(replica, error)

    def _note_failure(self, replica: Replica, error: Exception) -> None:
        """Logged once for each cause."""
        failure = self._failures.setdefault(replica.id, _Failure())
        if str(error) != replica.log.compaction.failure:
            known = error if not isinstance(error, OttlaError) else None
            _log.error("%s can't be compacted, and stays as it is: %s", replica, error, exc_info=known)
            replica.log.compaction.failure = str(error)
        failure.due_at = self._clock.monotonic() + failure.backoff.next()


def _not_secured(replica: Replica) -> OttlaError:
    point = replica.log.compaction.recovery_point
    return OttlaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"the recovery point of {replica} on disk is {point}, and nothing above it may be compacted",
        hint="it is written again when the log's turn comes again",
    )


def _once_secured(replica: Replica, now_ms: int) -> Candidate:
    """What of the log may be cleaned when its sealed segments are durable."""
    log = replica.log
    return Candidate.of(log, replica.last_stable_offset, now_ms, log.next_recovery_point)
