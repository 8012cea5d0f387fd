"""The log cleaner compacts the logs that this broker leads or follows: the dirtiest first, each in a worker process.

Each replica compacts its own log, below its own high watermark. So the replicas have in common only the newest value of
each key, and what is left at the same offsets (I16).

Decoding and compressing take the CPU for minutes, so a worker process does it, and the loop stays free. A worker cleans
the segments of a log group by group. Each group takes its place before the next one is written, and stays there however
the cleaning ends: a killed worker loses one group of work, and a clean needs the room of one group.

A cleaning and retention must not take each other's segments. Retention has its turn before a cleaning begins. While one
runs, retention only takes segments that the cleaning has passed. A truncation does not wait: the cleaning that it
overtakes is given up, and the log's turn comes again.

One bad log must not stop the others. A log that can't be cleaned is named once in the log and counted, and is tried
again at longer and longer intervals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.job import CleanedGroup, CleaningResult
from ottla_broker.compaction.settings import CleanerSettings, cleaner_settings
from ottla_broker.compaction.worker import Run
from ottla_broker.machines.offsets import RecoveryPoint
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.securing import secure_and_tidy
from ottla_broker.storage import swap
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.event_loop.tasks import end_tasks
from ottla_core.model import PartitionId
from ottla_core.rpc.retry import Backoff

_log = logging.getLogger(__name__)

_TRY_AGAIN_FIRST_S: Final = 15.0
_TRY_AGAIN_MOST_S: Final = 600.0


@dataclass(slots=True)
class Totals:
    """Sums over all cleans so far."""

    runs: int = 0
    bytes_read: int = 0
    bytes_saved: int = 0
    seconds: float = 0.0
    ended_at_ms: int = 0
    """It is the time at which the last clean ended, or 0 before the first."""


@dataclass(slots=True)
class _Failure:
    """A log whose clean failed, and when it is next due."""

    due_at: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_TRY_AGAIN_FIRST_S, _TRY_AGAIN_MOST_S))


class LogCleaner:
    """A component that compacts logs. `run` does one job, normally in a process of its own."""

    def __init__(
        self,
        metadata: MetadataFollower,
        replicas: ReplicaTable,
        broker_id: Callable[[], int],
        clock: Clock,
        threads: DiskThreads,
        run: Run,
    ) -> None:
        self.totals: Final = Totals()
        self.dirtiest_ratio = 0.0
        """The highest dirty ratio, as of the last look."""
        self._metadata: Final = metadata
        self._replicas: Final = replicas
        self._broker_id: Final = broker_id
        self._clock: Final = clock
        self._threads: Final = threads
        self._run_job: Final = run
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
        """This is the number of logs whose last clean failed."""
        return len(self._failures)

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if new.configs is not old.configs:
            self._look.set()

    async def _run(self) -> None:
        while True:
            settings = cleaner_settings(self._metadata.image, self._broker_id())
            # The event is cleared before the look, so that a clean that ends during the look leads to another one at
            # once.
            self._look.clear()
            try:
                while settings.enabled and len(self._running) < settings.threads:
                    found = await self._dirtiest()
                    if found is None:
                        break
                    replica, candidate = found
                    if (left := await self._after_retention(replica, candidate)) is not None:
                        self._begin(replica, left, settings)
            except Exception:
                _log.exception("looking for logs to compact failed, retrying")
            try:
                # log.cleaner.backoff.ms may be 0. Without a lower bound the loop would look through all logs without a
                # pause.
                async with asyncio.timeout(max(settings.backoff_s, 0.1)):
                    await self._look.wait()
            except TimeoutError:
                pass

    # ---- which one ---------------------------------------------------------------------------------------------------

    async def _dirtiest(self) -> tuple[Replica, Candidate] | None:
        """Return the dirtiest log. Logs with a record that has waited too long come first."""
        slice_, now_ms = Slice(), self._clock.wall_ms()
        found: list[tuple[Replica, Candidate]] = []
        ratios = [0.0]
        # The list is a copy, because the compacted replicas may change while other tasks have their turns.
        for replica in list(self._replicas.compacted):
            await slice_.rest()
            # A truncation has the log in a thread. A cleaning that begins beside it would be overtaken right away.
            if self._replicas.get(replica.id) is not replica or replica.disk.is_in_a_thread or replica.log.is_offline:
                continue
            candidate = await self._candidate(replica, now_ms)
            if candidate is None:
                continue
            # The ratios include logs that are not due or can't be cleaned now: the metric shows the dirtiest of all.
            ratios.append(candidate.part.dirty_ratio)
            if self._may_be_cleaned(replica.id) and candidate.part.is_due(replica.log.config.least_dirty_ratio):
                found.append((replica, candidate))
        self.dirtiest_ratio = max(ratios)
        compacted = {replica.id for replica in self._replicas.compacted}
        for id_ in [id_ for id_ in self._failures if id_ not in compacted]:
            del self._failures[id_]
            if (former := self._replicas.get(id_)) is not None:  # its cleanup.policy has changed
                former.log.compaction.failure = ""
        # max.compaction.lag.ms promises when old values are deleted (KIP-354), so it goes before the ratio, which is
        # about space.
        return max(found, key=lambda each: (each[1].part.is_overdue, each[1].part.dirty_ratio), default=None)

    async def _candidate(self, replica: Replica, now_ms: int) -> Candidate | None:
        """Return what may be cleaned of the log once its sealed segments are durable.

        Return None if its segments can't be read, which is noted, or if they have changed in between.
        """
        segments = replica.log.segments
        try:
            # The look assumes the recovery point that `_secured` reaches before the cleaning. Measured by the present
            # one, a log that is never flushed would never seem dirty.
            candidate = await self._look_at(replica, now_ms, replica.log.next_recovery_point)
        except (OSError, OttlaError) as error:
            # Retention may have deleted a file while it was read. That is no failure.
            if replica.log.segments == segments and self._may_be_cleaned(replica.id):
                self._note_failure(replica, error)
            return None
        return candidate if candidate.is_unchanged else None

    async def _look_at(self, replica: Replica, now_ms: int, point: RecoveryPoint | None = None) -> Candidate:
        """Find what may be cleaned, in a thread if that reads the disk. Raises what `Candidate.of` raises."""
        log, stable = replica.log, replica.offsets.last_stable_offset
        if Candidate.reads_disk(log.config):
            return await self._threads.look_up(Candidate.of, log, stable, now_ms, point)
        return Candidate.of(log, stable, now_ms, point)

    def _may_be_cleaned(self, id_: PartitionId) -> bool:
        failure = self._failures.get(id_)
        return id_ not in self._running and (failure is None or failure.due_at <= self._clock.monotonic())

    # ---- cleaning one ------------------------------------------------------------------------------------------------

    async def _after_retention(self, replica: Replica, candidate: Candidate) -> Candidate | None:
        """Apply retention, so that nothing is cleaned that it deletes in any case. Return what is left to be cleaned.

        Return None if that is not worth a cleaning, or if the log is no longer free to be cleaned.
        """
        left: Candidate | None = candidate
        if replica.log.config.deletes:
            now_ms = self._clock.wall_ms()
            try:
                replica.tidy(now_ms)
                if replica.log.unsecured_until:
                    await secure_and_tidy(replica, self._replicas, self._threads, now_ms)
            except OttlaError as error:
                self._note_failure(replica, error)
                return None
            left = await self._candidate(replica, now_ms)
        if left is None or not left.part.is_due(replica.log.config.least_dirty_ratio):
            return None
        return None if self._replicas.get(replica.id) is not replica or replica.disk.is_in_a_thread else left

    def _begin(self, replica: Replica, candidate: Candidate, settings: CleanerSettings) -> None:
        def on_done(_: asyncio.Task[None]) -> None:
            # A callback does it, so that retention gets its segments back however the cleaning ends, even if it is
            # cancelled before it begins.
            candidate.release()
            del self._running[replica.id]
            self._look.set()

        candidate.hold()
        task = asyncio.create_task(self._clean(replica, candidate, settings), name=f"compact-{replica}")
        self._running[replica.id] = task
        task.add_done_callback(on_done)

    async def _clean(self, replica: Replica, candidate: Candidate, settings: CleanerSettings) -> None:
        began_at = self._clock.monotonic()
        try:
            # The flush may have covered less than the look assumed, so the candidate is taken again before the job is
            # made (I35).
            candidate = await self._secured(replica, candidate)
            candidate.hold()
            job = await self._threads.keep(candidate.job, settings, self._clock.wall_ms(), replica.purge_limit)
            saved_before = self.totals.bytes_saved
            result = await self._run_job(job, partial(self._take, replica, candidate))
            # A clean that came no further would be due again at once, for ever.
            candidate.check_progress(result, settings)
        except Exception as error:
            await self._on_failure(replica, candidate, error)
            return
        self._failures.pop(replica.id, None)
        replica.log.compaction.failure = ""
        self._note(replica, result, self.totals.bytes_saved - saved_before, self._clock.monotonic() - began_at)

    async def _secured(self, replica: Replica, candidate: Candidate) -> Candidate:
        """Make the segments durable, write the recovery point to disk, and return what may be cleaned then.

        On a full disk that may fail. What was durable before may still be cleaned, which makes room. Raises
        KAFKA_STORAGE_ERROR if nothing may be cleaned.
        """
        if candidate.is_secured:
            return candidate
        failure = None
        try:
            await self._threads.flush(replica.log.secure_sealed)
        except OttlaError as error:
            failure = error
        # This look goes by the recovery point that is on disk now, whatever became of the flush.
        secured = await self._look_at(replica, self._clock.wall_ms())
        if not secured.part.dirty_bytes:
            raise failure or _not_secured(replica)
        return secured

    def _note(self, replica: Replica, result: CleaningResult, saved: int, seconds: float) -> None:
        self.totals.runs += 1
        self.totals.bytes_read += result.bytes_read
        self.totals.seconds += seconds
        self.totals.ended_at_ms = self._clock.wall_ms()
        text = "%s is compacted up to %d: %d of %d records stay, %d bytes saved, %.1f s"
        _log.info(text, replica, result.end_offset, result.records_kept, result.records_read, saved, seconds)
        if result.keyless:
            _log.warning("%s: compaction dropped records without a key: %d", replica, result.keyless)

    async def _take(self, replica: Replica, candidate: Candidate, group: CleanedGroup) -> None:
        """Put the group in its place. Raises OvertakenError if a truncation came first."""
        with replica.purging(group.purged_before):
            self.totals.bytes_saved += await self._threads.keep(candidate.swap, group)
        candidate.on_passed(group)

    async def _on_failure(self, replica: Replica, candidate: Candidate, error: Exception) -> None:
        if self._replicas.get(replica.id) is not replica:
            return  # the topic is gone, or the partition has moved
        with suppress(OSError):  # the next cleaning overwrites them
            await self._threads.keep(swap.remove_cleaned, replica.log.directory)
        if candidate.is_unchanged:  # otherwise the failure has a reason: its files are others by now
            self._note_failure(replica, error)

    def _note_failure(self, replica: Replica, error: Exception) -> None:
        """Note a failure and when the log is next due. It is logged once for each cause."""
        failure = self._failures.setdefault(replica.id, _Failure())
        if str(error) != replica.log.compaction.failure:
            known = error if not isinstance(error, OttlaError) else None
            _log.error("%s can't be compacted: %s", replica, error, exc_info=known)
            replica.log.compaction.failure = str(error)
        failure.due_at = self._clock.monotonic() + failure.backoff.next()


def _not_secured(replica: Replica) -> OttlaError:
    point = replica.log.compaction.recovery_point
    return OttlaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"the stored recovery point of {replica} is {point}, so the log above offset {point} can't be compacted yet",
        hint="the broker writes the recovery point again before it next compacts this log",
    )
