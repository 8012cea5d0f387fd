"""Which part of one log is fsynced, and when and how the rest is fsynced.

`flush` runs in a thread beside appends. Only one flush runs at a time, and never beside a truncation of the log,
because both take `lock`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from threading import Lock
from typing import Final

from ottla_broker.machines.offsets import LogEndOffset, RecoveryPoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log_config import MAX_INT64, LogConfig
from ottla_broker.storage.segment import Ranges, Segment

WRITE_BEHIND_BYTES: Final = 64 << 20
"""How many bytes may wait for the disk if no flush policy requests less. It costs no throughput. With much more of it,
the kernel makes writers wait, 20 ms at a time, and a restart after a crash has more to check."""


class Flusher:
    """Everything before `recovery_point` is fsynced."""

    def __init__(self, directory: PurePath, disk: Disk, recovery_point: RecoveryPoint) -> None:
        self.lock: Final = Lock()
        self.recovery_point = recovery_point
        self._directory: Final = directory
        self._disk: Final = disk
        # Each is written by one thread only: the loop's, and the one that flushes.
        self._appended_bytes = 0
        self._flushed_bytes = 0
        self._flushed_at_ms = -1
        self._durable_until = -1
        """The directory was fsynced with the names of all segments up to the one that begins here."""
        self._synced_until = 0
        """The sealed segments before this offset were fsynced, even if the recovery point lies before them."""

    def on_append(self, size_bytes: int) -> None:
        self._appended_bytes += size_bytes

    def on_truncated(self, recovery_point: RecoveryPoint) -> None:
        """Note that the log ends elsewhere, and that another segment is active. With the lock held."""
        self.recovery_point = recovery_point
        self._durable_until = -1
        self._synced_until = 0

    def is_due(self, log_end_offset: LogEndOffset, config: LogConfig, now_ms: int) -> bool:
        """Return whether flush.messages, flush.ms or WRITE_BEHIND_BYTES call for a `flush` now."""
        waiting = log_end_offset - self.recovery_point
        return waiting > 0 and (
            waiting >= config.flush_messages
            or self._appended_bytes - self._flushed_bytes >= WRITE_BEHIND_BYTES
            or self._is_time(config.flush_ms, now_ms)
        )

    def _is_time(self, flush_ms: int, now_ms: int) -> bool:
        """Return whether the last flush was `flush_ms` ago, or the clock was set back since."""
        return flush_ms < MAX_INT64 and not 0 <= now_ms - self._flushed_at_ms < flush_ms

    def flush(self, ranges: Callable[[], Ranges], now_ms: int, store_epochs: Callable[[], None]) -> RecoveryPoint:
        """fsync what was appended, then advance the recovery point and return it. With the lock held.

        The epochs are written first, because a start reads no batches below the recovery point.
        """
        appended_bytes, segments = self._appended_bytes, ranges()
        active, end_offset = segments[-1]
        if end_offset > self.recovery_point:
            self._flush_sealed(segments[:-1], ranges)
            self.flush_segment(active, ranges, sealed=False)
            self.make_names_durable(active)
            store_epochs()
            self.recovery_point = RecoveryPoint(end_offset)
            self._flushed_bytes = appended_bytes
        self._flushed_at_ms = now_ms
        return self.recovery_point

    def flush_sealed(self, ranges: Callable[[], Ranges], store_epochs: Callable[[], None]) -> RecoveryPoint:
        """Flush all segments but the active one, and advance the recovery point to its start. With the lock held."""
        appended_bytes, segments = self._appended_bytes, ranges()
        active, _ = segments[-1]
        if active.base_offset > self.recovery_point:
            active_bytes = active.size_bytes
            self._flush_sealed(segments[:-1], ranges)
            self.make_names_durable(active)
            store_epochs()
            self.recovery_point = RecoveryPoint(active.base_offset)
            self._flushed_bytes = max(self._flushed_bytes, appended_bytes - active_bytes)
        return self.recovery_point

    def has_synced(self, offset: int) -> bool:
        """Return whether the record at `offset`, all before it and the names of their segments are fsynced."""
        return offset < max(self.recovery_point, self._synced_until)

    def sync_sealed(self, base_offset: int, ranges: Callable[[], Ranges]) -> None:
        """fsync the sealed segments up to the one that begins at `base_offset`. With the lock held.

        Their offset and time indexes wait for their turn: the recovery point stays, so a start makes them anew. They
        may be in memory alone because the disk is full, and must not keep segments from being deleted.
        """
        *sealed, (active, _) = ranges()
        synced_until = self._synced_until
        for segment, end_offset in sealed:
            if segment.base_offset <= base_offset and not self.has_synced(end_offset - 1):
                self.flush_segment(segment, lambda: (), sealed=False)  # without its file, nothing can come back
                synced_until = end_offset
        self.make_names_durable(active)
        self._synced_until = synced_until

    def is_name_durable(self, base_offset: int) -> bool:
        return base_offset <= self._durable_until

    def make_names_durable(self, active: Segment) -> None:
        """Make the names of the segments last, as their bytes do."""
        if not self.is_name_durable(active.base_offset):
            self._disk.sync_directory(self._directory)
            self._durable_until = active.base_offset

    def _flush_sealed(self, sealed: Ranges, ranges: Callable[[], Ranges]) -> None:
        for segment, segment_end in sealed:
            if segment_end > self.recovery_point:
                self.flush_segment(segment, ranges, sealed=True)

    def flush_segment(self, segment: Segment, ranges: Callable[[], Ranges], *, sealed: bool) -> None:
        try:
            segment.sync(sealed=sealed)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and all(segment is not kept for kept, _ in ranges()):
                return  # retention has taken it since, so nothing is left to keep
            raise self._disk.error(f"flushing {segment.path.name}", error) from error
