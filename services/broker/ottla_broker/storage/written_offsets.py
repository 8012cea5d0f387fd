"""The offsets of one log as the checkpoint files of its data directory have them on disk."""

from __future__ import annotations

from typing import Protocol

from ottla_broker.machines.offsets import RecoveryPoint


class WrittenOffsets(Protocol):
    """The offsets of one log, as they are on disk. For a thread, because both calls may wait for the disk."""

    def on_truncation(self) -> None:
        """Lower what is written beyond the end of the log, which is shorter now. Raises KAFKA_STORAGE_ERROR."""
        ...

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        """Return the recovery point on disk. It is written again if it is lower than `recovery_point`.

        It may stay lower, because nothing is written while the directory is being closed. Raises KAFKA_STORAGE_ERROR.
        """
        ...


class NotWritten:
    """The offsets of a log without checkpoint files: the caller gives the next start its recovery point."""

    def on_truncation(self) -> None:
        """Do nothing, because no file promises anything of this log."""

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        return recovery_point
