"""The offsets of one log as the checkpoint files of its data directory have them on disk."""

from __future__ import annotations

from typing import Final, Protocol

from ottla_broker.machines.offsets import RecoveryPoint
from ottla_broker.storage.log_config import MAX_INT64


class WrittenOffsets(Protocol):
    """The offsets of one log, as they are on disk. Calls are for a thread, because they may wait for the disk."""

    @property
    def log_start(self) -> int:
        """This is the log start that the next start finds at least. It is 0 while that is not certain."""
        ...

    def on_truncation(self) -> None:
        """Lower what is written beyond the end of the log, which is shorter now. Raises KAFKA_STORAGE_ERROR."""
        ...

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        """Return the recovery point on disk. It is written again if it is lower than `recovery_point`.

        It may stay lower, because nothing is written while the directory is being closed. Raises KAFKA_STORAGE_ERROR.
        """
        ...


class NotWritten:
    """The offsets of a log without checkpoint files: the caller gives the next start its offsets."""

    log_start: Final = MAX_INT64
    """No file has an earlier log start."""

    def on_truncation(self) -> None:
        """Do nothing, because no file promises anything of this log."""

    def cover(self, recovery_point: RecoveryPoint) -> RecoveryPoint:
        return recovery_point
