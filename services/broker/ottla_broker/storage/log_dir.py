"""All logs of one data directory: opened together, checkpointed together, closed together.

    meta.properties  .lock  .kafka_cleanshutdown  boot-id  boot-id-2  .reserve
    recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint  metadata-checkpoint
    cleaner-offset-checkpoint  incomplete-log-checkpoint
    <topic id, 32 hex>-<partition>/      partition.metadata  leader-epoch-checkpoint
                                         <offset>.log .index .timeindex .snapshot
    <topic id>-<partition>.<id>-delete/  a partition that is being deleted
    <topic id>-<partition>.<time>-<id>-stray/  one that the cluster did not know at a start (rule 24); for people

Directories are named by topic id: a topic that was deleted and created again never meets its old logs (rule 23).
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import PurePath
from threading import Lock
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla_broker.machines.offsets import HighWatermark, RecoveryPoint
from ottla_broker.storage import checkpoint, files, soundness
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.identity import DirectoryIdentity, DirectoryLock, claim
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.offset_checkpoints import OffsetCheckpoints
from ottla_broker.storage.reserve import Reserve
from ottla_broker.storage.soundness import CLEAN_SHUTDOWN, NO_INCARNATION, CleanStop, Incarnation, Vouch
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats import kafka_uuid
from ottla_core.model import PartitionId, TopicId
from ottla_core.process import descriptors

PARTITION_METADATA: Final = "partition.metadata"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"

_SYNCED_TOGETHER: Final = 8
"""With this many new logs they share a sync of the file system, which also waits for other processes' writes."""
_REMOVED_AT_ONCE: Final = 100
"""How many directories of deleted partitions are removed between two other things that wait for the disk."""
_SECURED_AT_ONCE: Final = 100
"""For how many logs epochs are written between two other things that wait for the disk. Each takes two fsyncs."""

_PARTITION_NAME: Final = re.compile(r"([0-9a-f]{32})-(\d+)")
_logger = logging.getLogger(__name__)


class LogDirSizes(NamedTuple):
    """The size of the file system under the directory and its free space, in bytes (DescribeLogDirs, KIP-827)."""

    path: str
    total_bytes: int
    usable_bytes: int


class NewLog(NamedTuple):
    """The description of a log to be made."""

    partition: PartitionId
    topic: str
    config: LogConfig


class Strays(NamedTuple):
    """Partitions that were set aside: they are not served, and only people delete them."""

    partitions: int
    size_bytes: int


class LogDir:
    """All logs of a data directory. Use `LogDir.open`. Several threads may create, delete and checkpoint different
    partitions at a time."""

    def __init__(self, disk: Disk, lock: DirectoryLock, identity: DirectoryIdentity) -> None:
        self.disk: Final = disk
        self.identity: Final = identity
        self.may_have_lost_tail = True
        """It tells whether something that this broker has acknowledged may be gone from here (module soundness).

        If so, the broker has to leave every ISR and ELR before it serves. `vouch` is called then.
        """
        self.incarnation: Incarnation | None = None
        """The directory has everything up to this incarnation of the broker. It is None if that is unknown."""
        self._is_vouched = False
        self._noting: Final = Lock()
        """It is held to write vouches, or which logs are incomplete: several threads may have a cause at a time."""
        self._vouch = Vouch(NO_INCARNATION, 0, 0)
        """It is the newest one that was found or written."""
        self._found_renewals = 0
        self._is_renewal_due = False
        self._incomplete = checkpoint.read_offsets(disk.path / checkpoint.INCOMPLETE)
        """Logs that may lack acknowledged records, with the offset that each had reached. A log stays here through any
        stops and starts until its replica is in sync again."""
        self._incomplete_on_disk = dict(self._incomplete)
        self._gone: frozenset[PartitionId] = frozenset()
        """These partitions of this broker had no log at the start."""
        self._lock: Final = lock
        self._logs: Final[dict[PartitionId, Log]] = {}
        self._checkpoints: Final = OffsetCheckpoints(disk)
        self._noted = checkpoint.read_history(disk.path / checkpoint.METADATA)
        self.followed = self._noted
        """It is the history of the metadata as far as this broker has followed it. A start finds what the last
        checkpoint noted."""
        self.strays = Strays(0, 0)
        """They are as of the last `measure_strays`."""
        self._doomed: Final = deque(self._ending_in(DELETE_SUFFIX))
        self._set_aside: Final = {_log_of(stray) for stray in self._ending_in(STRAY_SUFFIX)}

    @classmethod
    def open(
        cls, path: PurePath, identity: DirectoryIdentity, config: LogConfig, *, now_ms: int, threads: int = 1
    ) -> LogDir:
        """Lock the directory, check whose it is, and open every log in it, in `threads` threads. A new directory is
        created. It may take long: for a thread.

        `config` is the cluster's default, and is replaced log by log once the topics are known. Raises INVALID_CONFIG
        or INCONSISTENT_CLUSTER_ID for a directory that is not this node's, and KAFKA_STORAGE_ERROR for one that can't
        be read.
        """
        disk = Disk(path, max_open_files=descriptors.for_logs())
        try:
            files.make_directory(path, parents=True)
            lock = DirectoryLock(path)
        except OSError as error:
            raise disk.error(f"opening the data directory {path}", error) from error
        try:
            Reserve(path).release()  # a start has to mend logs, on a full disk too; `keep_reserve` takes it back
            claim(disk, identity)
            log_dir = cls(disk, lock, identity)
            log_dir._open_logs(config, now_ms, threads)
        except OSError as error:
            lock.release()
            raise disk.error(f"opening the data directory {path}", error) from error
        except BaseException:
            lock.release()
            raise
        return log_dir

    def _open_logs(self, config: LogConfig, now_ms: int, threads: int) -> None:
        stop = self._take_marker()
        vouch = soundness.find_vouch(self.disk.path, self.identity.directory_id, stop)
        if stop is not None and not soundness.fits(stop, self._recovery_points()):
            _logger.warning("%s was closed in order and then replaced by an older copy", self.disk.path)
            stop = vouch = None
        with ThreadPoolExecutor(threads, "recovery") as recovery:
            opening = recovery.map(
                lambda directory: self._open_log(directory, config, now_ms, clean=stop is not None),
                [self.disk.path / name for name in sorted(files.names_in(self.disk.path))],
            )
            list(opening)  # it raises the error of the thread that failed
        # A log that was damaged may still reach its checkpoints, which are up to a few seconds old.
        damaged = [log.directory for log in self._logs.values() if log.was_damaged]
        if damaged:
            _logger.warning("%s was damaged; damaged logs in total: %d", damaged[0], len(damaged))
        if self._reaches_checkpoints() and not damaged and vouch is not None:
            self._vouch, self._found_renewals = vouch, vouch.renewals
            self._trust(vouch.incarnation)
        else:
            soundness.withdraw(self.disk.path)
            self.disk.sync_directory(self.disk.path)
            self._distrust_logs()
            self._write_incomplete()
        # A log that was truncated ends below its old recovery point, which must not vouch for new appends (rule 60).
        self.checkpoint({})

    def _recovery_points(self) -> bytes:
        try:
            return files.read_bytes(self.disk.path / checkpoint.RECOVERY_POINTS)
        except FileNotFoundError:
            return b""

    def _take_marker(self) -> CleanStop | None:
        """Read and remove the marker of a clean stop. The removal is fsynced before the first write, so that a crash
        from now on is recognized (rule 58)."""
        marker = self.disk.path / CLEAN_SHUTDOWN
        try:
            text = files.read_bytes(marker).decode(errors="replace")
        except FileNotFoundError:
            return None
        files.remove(marker)
        self.disk.sync_directory(self.disk.path)
        return soundness.clean_stop_of(text, self.identity.directory_id)

    def _open_log(self, directory: PurePath, config: LogConfig, now_ms: int, *, clean: bool) -> None:
        """Open the log in the directory. A directory of another kind is left alone."""
        partition = partition_of(directory.name)
        if partition is None or not files.is_directory(directory):
            return
        log = self._logs[partition] = Log.open(
            directory,
            self.disk,
            config,
            now_ms=now_ms,
            clean=clean,
            recovery_point=RecoveryPoint(self._checkpoints.recovery_points.get(partition, 0)),
            log_start_offset=self._checkpoints.log_starts.get(partition, 0),
            written=_WrittenOffsets(self, partition),
        )
        log.compaction.first_dirty_offset = min(self._checkpoints.first_dirty.get(partition, 0), log.log_end_offset)

    def _reaches_checkpoints(self) -> bool:
        """Return whether every log has what the checkpoints promise. A log that is gone ends at 0, unless it was
        deleted."""
        deleted = {_log_of(path) for path in self._doomed}
        reached = True
        for partition, promised in self._checkpoints.promised().items():
            log = self._logs.get(partition)
            end = log.log_end_offset if log is not None else 0
            if end < promised and (log is not None or str(partition) not in deleted):
                _logger.warning(
                    "%s ends at offset %d, but previously reached offset %d",
                    self.disk.path / str(partition),
                    end,
                    promised,
                )
                reached = False
        return reached

    def vouch(self, incarnation: Incarnation = NO_INCARNATION) -> None:
        """Vouch that all that was acknowledged up to `incarnation` is here, or that the cluster knows what may be
        missing. It takes a few fsyncs.

        If a full disk prevents writing that down, it holds for this process, and the next start does not know.
        """
        self._is_vouched = True
        self._trust(incarnation)

    def _trust(self, incarnation: Incarnation) -> None:
        self.incarnation, self.may_have_lost_tail = incarnation, False
        try:
            self._write_incomplete()
            with self._noting:
                for _ in soundness.VOUCHES:
                    self._write_vouch(self._vouch._replace(incarnation=incarnation), synced=True)
            self.disk.sync_directory(self.disk.path)
        except (OSError, OttlaError) as error:
            soundness.withdraw(self.disk.path)
            doing = f"recording that {self.disk.path} is complete"
            _logger.warning("%s", self.disk.error(doing, error) if isinstance(error, OSError) else error)

    def _write_vouch(self, vouch: Vouch, *, synced: bool) -> None:
        """Write a vouch behind the newest one."""
        numbered = vouch._replace(number=self._vouch.number + 1)
        soundness.write_vouch(self.disk.path, self.identity.directory_id, numbered, synced=synced)
        self._vouch = numbered

    @property
    def renewals(self) -> int:
        """It says how often the vouch for this directory was renewed, on disk. The store may know it from now on."""
        return self._vouch.renewals

    @property
    def _renewed(self) -> Vouch:
        return self._vouch._replace(renewals=self._vouch.renewals + 1)

    def renew_vouch(self) -> None:
        """Vouch anew if a checkpoint was written since the last time, so that a copy of the directory from before that
        no longer vouches for itself. For a thread; it takes no fsync.

        If a full disk has no room, the last vouch still counts.
        """
        if not self._is_renewal_due or not self.may_lead or self.incarnation is None or self.disk.failure:
            return
        self._is_renewal_due = False
        try:
            with self._noting:
                self._write_vouch(self._renewed, synced=False)
        except OSError as error:
            self._is_renewal_due = True
            raise self.disk.error(f"recording that {self.disk.path} is complete", error) from error

    def compare(self, newest: Incarnation | None, renewals: int = 0) -> bool:
        """Compare the directory with the newest incarnation of this broker that the cluster has seen, and with how
        often that had renewed its vouch when it last said so.

        If they differ, the directory is an old copy (rule C17), or the store was restored from a backup (rule C18).
        Return whether the store was restored: then the directory knows the later incarnation.
        """
        if self.incarnation is None or (self.incarnation == newest and self._found_renewals >= renewals):
            return False
        _logger.warning("%s is an older copy of this broker's data, or the metadata are older", self.disk.path)
        self.may_have_lost_tail = True
        is_ahead = self.incarnation.epoch > (NO_INCARNATION if newest is None else newest).epoch
        if not is_ahead:
            self._distrust_logs()
        return is_ahead

    @property
    def may_lead(self) -> bool:
        """Return whether the logs here have all that this broker has acknowledged, as far as the cluster knows.

        Before `vouch` that is unknown: the directory may be an old copy (rule C17).
        """
        return self._is_vouched and not self.may_have_lost_tail

    def expect(self, assigned: Set[PartitionId], relied_upon: Set[PartitionId]) -> None:
        """Compare the directory with the partitions that the cluster has this broker keep, before logs are created for
        them.

        If a log's directory went before any checkpoint named it, only the cluster knows of the log. A new partition
        whose broker was killed before it created the log looks the same, and costs an election.
        """
        self._gone = frozenset(assigned) - self._logs.keys()
        gone = sorted(self._gone.intersection(relied_upon))
        if gone and not self.may_have_lost_tail:
            _logger.warning(
                "%s lacks the log for partition %s; missing logs that the cluster relies on, in total: %d",
                self.disk.path,
                gone[0],
                len(gone),
            )
            self.may_have_lost_tail = True
            soundness.withdraw(self.disk.path)  # before logs are created: the next start would find them, empty
            self.disk.sync_directory(self.disk.path)

    def has_all_of(self, partition: PartitionId) -> bool:
        """Return whether the partition's log has all that it ever had, by the directory's own evidence, or its replica
        was in sync since. A log that began anew beside one that was lost, or set aside, has not."""
        return partition not in self._incomplete

    @property
    def incomplete(self) -> int:
        """It is the number of logs that may lack acknowledged records."""
        return len(self._incomplete)

    def on_in_sync(self, partitions: Iterable[PartitionId]) -> None:
        """Note that these replicas are in the ISR, which this broker has left since it found that its logs may lack
        records. The next checkpoint writes it down."""
        for partition in partitions:
            self._incomplete.pop(partition, None)

    def _distrust_logs(self) -> None:
        """Note that all logs here may lack records."""
        promised = self._checkpoints.promised()
        for partition, log in self._logs.items():
            reached = (log.log_end_offset, promised.get(partition, 0), self._incomplete.get(partition, 0))
            self._incomplete[partition] = max(reached)

    def _write_incomplete(self) -> None:
        """Write down which logs may lack records. It comes before the directory is vouched for again, and before new
        logs take the place of lost ones. Raises what `Disk.replace_file` raises."""
        with self._noting:
            incomplete = dict(self._incomplete)
            if incomplete != self._incomplete_on_disk:
                names = {id_: checkpoint.name_of(id_) for id_ in incomplete}
                checkpoint.write_offsets(self.disk, self.disk.path / checkpoint.INCOMPLETE, incomplete, names)
                self._incomplete_on_disk = incomplete

    @property
    def logs(self) -> Mapping[PartitionId, Log]:
        return MappingProxyType(self._logs)

    def high_watermark(self, partition: PartitionId) -> HighWatermark:
        """Return the high watermark that was last checkpointed, within the log. It is a lower bound of the real one
        (rule 16)."""
        log = self._logs[partition]
        known = min(self._checkpoints.high_watermarks.get(partition, 0), log.log_end_offset)
        return HighWatermark(max(log.log_start_offset, known))

    def create(self, partition: PartitionId, topic: str, config: LogConfig, *, now_ms: int) -> Log:
        """Return the partition's log, which is created if it does not exist."""
        log = self.create_all([NewLog(partition, topic, config)], now_ms=now_ms)[0]
        if isinstance(log, OttlaError):
            raise log
        return log

    def create_all(self, new_logs: Sequence[NewLog], *, now_ms: int) -> list[Log | OttlaError]:
        """Return the logs of these partitions, each of which is created if it does not exist, with one sync for all.
        For a log that could not be created, return the error."""
        self.disk.check_online()
        together = self.disk.syncing_once() if len(new_logs) >= _SYNCED_TOGETHER else nullcontext()
        self._incomplete.update({new.partition: 0 for new in new_logs if self._is_lost(new.partition)})
        self._write_incomplete()
        with together:
            logs = [self._create(new, now_ms) for new in new_logs]
            self.disk.sync_directory(self.disk.path)
        for new, log in zip(new_logs, logs, strict=True):
            if isinstance(log, Log) and self._logs.setdefault(new.partition, log) is log:
                self.take_back(new.partition)  # a log that is back begins at 0, whatever its checkpoints promise
        return logs

    def _is_lost(self, partition: PartitionId) -> bool:
        """Return whether a log that is not here may have had records that this broker has acknowledged."""
        was_here = self.may_have_lost_tail or partition in self._gone or str(partition) in self._set_aside
        return was_here and partition not in self._logs

    def _create(self, new: NewLog, now_ms: int) -> Log | OttlaError:
        """Create one log. The caller syncs the parent."""
        partition = new.partition
        if partition in self._logs:
            return self._logs[partition]
        directory = self.disk.path / str(partition)
        try:
            files.make_directory(directory)
            # A failed creation may have left this file. The file that replaces it would take its name only after the
            # log is opened, and opening removes temporary files.
            files.remove_if_there(directory / PARTITION_METADATA)
            # Kafka reads the first two lines and no further; the others are for people.
            self.disk.replace_file(
                directory / PARTITION_METADATA,
                f"version: 0\ntopic_id: {kafka_uuid.spelled(partition.topic_id)}\n"
                f"topic: {new.topic}\npartition: {partition.partition}\n",
            )
            written = _WrittenOffsets(self, partition)
            return Log.open(directory, self.disk, new.config, now_ms=now_ms, written=written)
        except OSError as error:
            return self.disk.error(f"making {directory}", error)
        except OttlaError as error:
            return error

    def delete(self, partitions: Iterable[PartitionId]) -> None:
        """Forget partitions and rename their directories, with one sync for all. `remove_deleted` frees the space.

        Raises KAFKA_STORAGE_ERROR if some can't be renamed. These stay in `logs`, closed, and have to be deleted once
        more.
        """
        failure: OttlaError | None = None
        for partition in partitions:
            log = self._logs[partition]
            log.abandon()
            try:
                self._doomed.append(self._rename(log.directory, f"{uuid.uuid4().hex}{DELETE_SUFFIX}"))
            except OttlaError as error:
                failure = error
            else:
                log.abandon()  # it also closes the files that a reader has opened since
                del self._logs[partition]
                self._incomplete.pop(partition, None)
        self.disk.sync_directory(self.disk.path)
        if failure is not None:
            raise failure

    def set_strays_aside(self, known: Container[PartitionId], *, now_ms: int) -> list[PurePath]:
        """Rename the directories of partitions that the cluster doesn't know, once all metadata is there (rule 24)."""
        since = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))
        renamed = []
        for partition in [partition for partition in self._logs if partition not in known]:
            log = self._logs.pop(partition)
            self._incomplete.pop(partition, None)
            log.abandon()
            renamed.append(self._rename(log.directory, f"{since}-{uuid.uuid4().hex[:8]}{STRAY_SUFFIX}"))
            self._set_aside.add(str(partition))
            _logger.warning("the partition %s belongs to no topic; its log is kept as %s", partition, renamed[-1])
        if renamed:
            self.disk.sync_directory(self.disk.path)
        return renamed

    def measure_strays(self) -> Strays:
        """Measure the stray logs. It reads their directories, so call it in a thread."""
        directories = self._ending_in(STRAY_SUFFIX)
        self.strays = Strays(len(directories), sum(map(_size_bytes, directories)))
        return self.strays

    def remove_deleted(self) -> int:
        """Free the space of deleted segments, and of some deleted partitions. Return how many there were. For a
        thread."""
        unlinked, doomed = self.disk.unlink_discarded(), min(len(self._doomed), _REMOVED_AT_ONCE)
        if doomed:
            self.checkpoint({})  # once the logs are gone, what the checkpoints promise of them would count as lost
        for _ in range(doomed):
            files.remove_tree(self._doomed.popleft())
        return unlinked + doomed

    def checkpoint(self, high_watermarks: Mapping[PartitionId, int]) -> None:
        """Write recovery points, log starts, high watermarks and `followed` to disk, with a few fsyncs. For a thread.

        A partition that is missing in `high_watermarks` keeps its previous one.
        """
        if self._checkpoints.write(dict(self._logs), high_watermarks):
            self._is_renewal_due = True
        followed = self.followed
        if followed != self._noted:
            checkpoint.write_history(self.disk, self.disk.path / checkpoint.METADATA, followed)
            self._noted = followed
        self._write_incomplete()

    def secure_starts(self) -> None:
        """Write down the epochs for which the checkpoint of log starts waits, of some logs at a time. For a thread.

        If some can't be written, it goes on with the others, and then raises KAFKA_STORAGE_ERROR.
        """
        failure: OttlaError | None = None
        waiting = [log for log in list(self._logs.values()) if log.has_unsecured_start]
        for log in waiting[:_SECURED_AT_ONCE]:
            try:
                log.secure_start()
            except OttlaError as error:
                # A log that is closed has just been deleted.
                failure = failure if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER else error
        if failure is not None:
            raise failure

    def written_log_start(self, partition: PartitionId) -> int:
        """See `WrittenOffsets.log_start`."""
        return self._checkpoints.written_log_start(partition)

    def cover(self, partition: PartitionId, recovery_point: RecoveryPoint) -> RecoveryPoint:
        """See `WrittenOffsets.cover`."""
        if self._checkpoints.written_recovery_point(partition) < recovery_point:
            self.checkpoint({})
        return self._checkpoints.written_recovery_point(partition)

    def take_back(self, partition: PartitionId) -> None:
        """Lower what the checkpoints promise of a log that is shorter now, before anything is appended to it (rule 60).

        Otherwise a start would count bytes as flushed that are not, and another leader's records as committed.
        """
        if self._checkpoints.is_ahead(partition, self._logs[partition]):
            self.checkpoint({})

    def sizes(self) -> LogDirSizes:
        space = files.disk_space(self.disk.path)
        return LogDirSizes(str(self.disk.path), space.total_bytes, space.usable_bytes)

    def close(self, high_watermarks: Mapping[PartitionId, int], *, now_ms: int) -> None:
        """Flush and close every log, then leave the marker that spares the next start its checks.

        The lock is released in any case. Raises KAFKA_STORAGE_ERROR if something could not be written. The next start
        then recovers.
        """
        self._checkpoints.hold()
        try:
            with self.disk.syncing_once():
                for log in list(self._logs.values()):  # a slow thread may still create or delete a log
                    log.close(now_ms)
            self._checkpoints.release()
            self.checkpoint(high_watermarks)
            vouch = self._renewed._replace(incarnation=self.incarnation or NO_INCARNATION)
            text = soundness.marker_text(vouch, self.identity.directory_id, self._recovery_points())
            self.disk.replace_file(self.disk.path / CLEAN_SHUTDOWN, f"{text}\n")
            self._vouch = vouch
        finally:
            self.disk.files.forget_all()
            self._lock.release()

    def abandon(self) -> None:
        """Release everything without a write, as the end of the process would."""
        for log in list(self._logs.values()):  # a deletion may still run on a thread
            log.abandon()
        self._lock.release()

    def _ending_in(self, suffix: str) -> list[PurePath]:
        """Return the paths in the data directory whose names end with `suffix`."""
        return [self.disk.path / name for name in files.names_in(self.disk.path) if name.endswith(suffix)]

    def _rename(self, directory: PurePath, ending: str) -> PurePath:
        """Rename a directory. The caller syncs the parent."""
        renamed = directory.with_name(f"{directory.name}.{ending}")
        try:
            files.rename(directory, renamed)
        except OSError as error:
            raise self.disk.error(f"renaming {directory}", error) from error
        return renamed


class _WrittenOffsets:
    """The offsets of one log in the checkpoints of its directory."""

    def __init__(self, log_dir: LogDir, partition: PartitionId) -> None:
        self._log_dir: Final = log_dir
        self._partition: Final = partition

    @property
    def log_start(self) -> int:
        return self._log_dir.written_log_start(self._partition)

    def on_truncation(self) -> None:
        self._log_dir.take_back(self._partition)

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        return self._log_dir.cover(self._partition, recovery_point)


def partition_of(directory_name: str) -> PartitionId | None:
    """Return the partition whose log lies in a directory of that name, or None for any other directory."""
    name = _PARTITION_NAME.fullmatch(directory_name)
    return PartitionId(TopicId(bytes.fromhex(name[1])), int(name[2])) if name else None


def _log_of(renamed: PurePath) -> str:
    """Return the name that a directory had before it was renamed to be deleted or set aside."""
    return renamed.name.partition(".")[0]


def _size_bytes(directory: PurePath) -> int:
    """Return the size of the files in a directory. Some of them may be deleted while it counts."""
    total = 0
    with suppress(OSError):
        for name in files.names_in(directory):
            total += files.size_bytes(directory / name)
    return total
