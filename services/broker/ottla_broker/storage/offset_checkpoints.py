"""The offsets of its logs that a data directory has on disk: recovery points, log starts, high watermarks, and how far
each log is compacted.

They have four files. Every few seconds those that changed are written together. They are written at once if a log ends
before what they promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Final

from ottla_broker.machines.offsets import RecoveryPoint
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log import Log
from ottla_core.model import PartitionId

Offsets = dict[PartitionId, int]

_FILES: Final = (
    checkpoint.RECOVERY_POINTS,
    checkpoint.LOG_START_OFFSETS,
    checkpoint.HIGH_WATERMARKS,
    checkpoint.CLEANED,
)


class OffsetCheckpoints:
    """The four checkpoint files. Any thread may use them; one writes at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._lock: Final = Lock()
        self._written: dict[str, Offsets] = {}
        """The offsets that are on disk for certain."""
        self._is_held = False
        self._names: dict[PartitionId, str] = {}
        self.recovery_points = self._read(checkpoint.RECOVERY_POINTS)
        self.log_starts = self._read(checkpoint.LOG_START_OFFSETS)
        self.high_watermarks = self._read(checkpoint.HIGH_WATERMARKS)
        self.first_dirty = self._read(checkpoint.CLEANED)

    def promised(self) -> Offsets:
        """Return the offset that each log had reached for certain when this was written: fsynced or committed."""
        return {
            id_: max(self.recovery_points.get(id_, 0), self.high_watermarks.get(id_, 0))
            for id_ in {**self.recovery_points, **self.high_watermarks}
        }

    def write(self, logs: Mapping[PartitionId, Log], high_watermarks: Mapping[PartitionId, int]) -> bool:
        """Write the files that changed, with a few fsyncs. Return whether there were any. A partition that is missing
        in `high_watermarks` keeps its previous one."""
        with self._lock:
            has_changed = False
            if self._is_held:
                return False
            known = {**self.high_watermarks, **high_watermarks}
            self.high_watermarks = {
                id_: min(known[id_], log.log_end_offset) for id_, log in logs.items() if id_ in known
            }
            self.recovery_points = {id_: log.recovery_point for id_, log in logs.items()}
            self.log_starts = {id_: log.secured_start for id_, log in logs.items()}
            self.first_dirty = {id_: dirty for id_, log in logs.items() if (dirty := log.compaction.first_dirty_offset)}
            self._names = {id_: self._names.get(id_) or checkpoint.name_of(id_) for id_ in logs}
            offsets_of = (self.recovery_points, self.log_starts, self.high_watermarks, self.first_dirty)
            for name, offsets in zip(_FILES, offsets_of, strict=True):
                if offsets != self._written.get(name):
                    self._written.pop(name, None)
                    checkpoint.write_offsets(self._disk, self._disk.path / name, offsets, self._names)
                    self._written[name], has_changed = offsets, True
            return has_changed

    def written_recovery_point(self, partition: PartitionId) -> RecoveryPoint:
        """Return the recovery point of a partition that is on disk for certain."""
        with self._lock:
            return RecoveryPoint(self._written.get(checkpoint.RECOVERY_POINTS, {}).get(partition, 0))

    def written_log_start(self, partition: PartitionId) -> int:
        """Return the log start of a partition that is on disk for certain, or 0. It never waits, so it takes no
        lock."""
        return self._written.get(checkpoint.LOG_START_OFFSETS, {}).get(partition, 0)

    def hold(self) -> None:
        """Write nothing until `release`. Recovery points are ahead of the disk until one sync has covered all that they
        vouch for."""
        with self._lock:
            self._is_held = True

    def release(self) -> None:
        self._is_held = False

    def is_ahead(self, partition: PartitionId, log: Log) -> bool:
        """Return whether the files vouch for more than the log has, because it was truncated, or is new under an old
        name.

        Offsets whose write failed may be on disk or not.
        """
        with self._lock:
            return (
                len(self._written) < len(_FILES)
                or self.recovery_points.get(partition, 0) > log.recovery_point
                or self.log_starts.get(partition, 0) > log.log_start_offset
                or self.high_watermarks.get(partition, 0) > log.log_end_offset
                or self.first_dirty.get(partition, 0) > log.compaction.first_dirty_offset
            )

    def _read(self, name: str) -> Offsets:
        return checkpoint.read_offsets(self._disk.path / name)
