"""The offsets of one log as the checkpoint files of its data directory have them on disk."""

from __future__ import annotations

from typing import Protocol

from ottla_broker.machines.offsets import RecoveryPoint


class WrittenOffsets(Protocol):
    """The offsets of one log, as they are on disk. For a thread: both calls may wait for the disk."""

    def on_truncation(self) -> None:
        """Take back what is written beyond the end of the log, which is shorter now. Raises KAFKA_STORAGE_ERROR."""
        ...

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        """Return the recovery point on disk, which is written again where it is lower than `recovery_point`.

        It may be lower still: while the directory is being closed nothing is written. Raises KAFKA_STORAGE_ERROR.
        """
        ...


class NotWritten:
    """The offsets of a log without checkpoint files: the caller gives the next start its recovery point."""

    def on_truncation(self) -> None:
        """Do nothing: no file promises anything of this log."""

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        return recovery_point
