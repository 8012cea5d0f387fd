"""`ottla log compact` cleans one log while its broker is stopped, by the code of that broker's cleaner and its swap.

Like the cleaner it leaves alone the active segment and everything at or above the last stable offset: records above the
high watermark that the broker wrote down, and records of a transaction that may still be aborted. If the broker was
killed, the log is first recovered as a start of the broker would do it. Only what lies below a recovery point on disk
is cleaned. However the command ends, a start of the broker finds each group of segments as it was or cleaned.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, FatalError, config_error, from_core
from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleanedGroup
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset, RecoveryPoint
from ottla_broker.storage import checkpoint, files, swap
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.identity import META
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import partition_of
from ottla_broker.storage.reserve import NO_ROOM
from ottla_broker.storage.soundness import CLEAN_SHUTDOWN
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId
from ottla_stack.log_tools.directory_lock import locked
from ottla_stack.log_tools.log_files import LogFiles, find_logs, reading
from ottla_stack.log_tools.verify import LogVerifier


class Compacted(NamedTuple):
    """Everything before `end_offset` is compacted. The counts of records are of those before it."""

    directory: PurePath
    end_offset: int
    records_before: int
    records_kept: int
    bytes_before: int
    bytes_after: int
    seconds: float


def compact(directory: Path, *, delete_retention_ms: int, min_lag_ms: int, drops_keyless: bool) -> Compacted:
    """Compact the log in `directory`. Records without a key are dropped only on request. The topic may not be a
    compacted one, and there are no configs here that would show it.

    Raises ConfigError for anything but one partition, FatalError for a log that can't be cleaned, OSError. Segments are
    compacted group by group, and the groups that were compacted before the error stay compacted.
    """
    find_logs(directory)  # its errors come first, because a missing directory can't be locked
    resolved = directory.resolve()
    data = resolved.parent
    with locked(data):
        if (data / META).exists() and partition_of(resolved.name) is None:
            raise config_error(
                f"{directory} is not a partition of this broker", hint="copy the directory, and pass the copy"
            )
        swap.finish_all(directory, os.listdir(directory) if directory.is_dir() else ())
        found, *others = find_logs(directory)
        if others or not found.is_whole or found.directory != directory:
            raise config_error(
                f"{directory} is not the directory of one partition", hint="pass a directory such as orders-0"
            )
        largest_segment = _checked(found)
        config = LogConfig(
            segment_bytes=largest_segment,
            delete_retention_ms=delete_retention_ms,
            min_compaction_lag_ms=min_lag_ms,
            drops_keyless=drops_keyless,
        )
        return Compaction(resolved, config).run()._replace(directory=directory)


def _checked(found: LogFiles) -> int:
    """Return the bytes of the largest segment. A damaged log is left alone: opening it would truncate it."""
    if checkpoint.read_epochs(found.directory / checkpoint.LEADER_EPOCHS) is None:
        raise config_error(
            f"{found.directory} has no readable {checkpoint.LEADER_EPOCHS}",
            hint="start its broker and stop it cleanly, which rebuilds the file",
        )
    consequence = "nothing was changed"
    return max(report.size_bytes for report in LogVerifier(found).sound_segments(consequence))


class Compaction:
    """This compacts a sound log in an absolute directory, while its caller holds the lock of the data directory."""

    def __init__(self, directory: PurePath, config: LogConfig) -> None:
        self._directory, self._began_at = directory, time.monotonic()
        self._now_ms = time.time_ns() // 1_000_000
        self._disk = Disk(directory.parent)
        self._id = partition_of(directory.name) if files.exists(self._disk.path / META) else None
        self.log_start: Final = self._checkpoint(checkpoint.LOG_START_OFFSETS, 0)
        self._log = Log.open(
            directory,
            self._disk,
            config,
            now_ms=self._now_ms,
            # A copy was just verified, and a cleaner has left its gaps. Recovery would take them for losses.
            clean=self._id is None or files.exists(self._disk.path / CLEAN_SHUTDOWN),
            recovery_point=RecoveryPoint(self._checkpoint(checkpoint.RECOVERY_POINTS, 0)),
            log_start_offset=self.log_start,
            written=self,
        )
        self._log.compaction.first_dirty_offset = self._checkpoint(checkpoint.CLEANED, 0)

    def run(self) -> Compacted:
        log, before = self._log, self._log.size_bytes
        last_stable_offset = self._last_stable_offset()
        removed = kept = 0
        log.secure_sealed()
        while (candidate := Candidate.of(log, last_stable_offset, self._now_ms)).part.dirty_bytes:
            with _leaving_nothing(self._directory):
                settings = CleanerSettings()
                result = clean(candidate.job(settings, self._now_ms), partial(_take, candidate))
                candidate.check_progress(result, settings)
            removed, kept = removed + result.records_read - result.records_kept, result.records_kept
        self._disk.unlink_discarded()
        self._disk.sync_directory(self._directory)
        self._note(checkpoint.CLEANED, log.compaction.first_dirty_offset)  # the broker need not clean it again
        log.abandon()
        seconds, end = time.monotonic() - self._began_at, log.compaction.first_dirty_offset
        return Compacted(self._directory, end, kept + removed, kept, before, log.size_bytes, seconds)

    def _last_stable_offset(self) -> LastStableOffset:
        high_watermark = HighWatermark(self._checkpoint(checkpoint.HIGH_WATERMARKS, self._log.log_end_offset))
        return self._log.producers.last_stable_offset(self._log.log_start_offset, high_watermark)

    def _checkpoint(self, name: str, default: int) -> int:
        """Return the offset that the broker wrote down for this log, or `default` for a copy."""
        return default if self._id is None else checkpoint.read_offsets(self._disk.path / name).get(self._id, 0)

    def _note(self, name: str, offset: int) -> None:
        """Write the offset into the broker's checkpoint `name`. A copy has no checkpoints."""
        if self._id is not None:
            path = self._disk.path / name
            offsets: dict[PartitionId, int] = {**checkpoint.read_offsets(path), self._id: offset}
            checkpoint.write_offsets(self._disk, path, offsets, {id_: checkpoint.name_of(id_) for id_ in offsets})

    # ---- what the log needs of its checkpoints (WrittenOffsets) ------------------------------------------------------

    def on_truncation(self) -> None:
        raise AssertionError("a log must not be truncated while it is compacted")

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        if self._checkpoint(checkpoint.RECOVERY_POINTS, recovery_point) < recovery_point:
            self._note(checkpoint.RECOVERY_POINTS, recovery_point)
        return recovery_point


def _take(candidate: Candidate, group: CleanedGroup) -> None:
    candidate.swap(group)
    candidate.on_passed(group)


@contextmanager
def _leaving_nothing(directory: PurePath) -> Iterator[None]:
    """Remove what a cleaning has written if it fails, and name the log in the failure."""
    try:
        with reading(directory):
            yield
    except (OttlaError, OSError) as error:
        swap.remove_cleaned(directory)
        if isinstance(error, OttlaError):
            raise from_core(error) from None
        if error.errno in NO_ROOM:
            free = shutil.disk_usage(directory).free
            raise FatalError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{directory}: there is no room for the cleaned segments next to the old ones: {free} bytes are free",
                hint="free space for one more segment, then run the command again; segments that are already compacted "
                "stay compacted",
            ) from None
        raise
