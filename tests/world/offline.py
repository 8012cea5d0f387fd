"""This module runs `ottla log compact` in the world, on the disk of a broker that is down."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from ottla_broker.storage import checkpoint, files, swap
from ottla_broker.storage.identity import DirectoryLock
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.scan import sound_batches
from ottla_stack.log_tools.compact import Compaction

_DELETE_RETENTION_MS: Final = 86_400_000


def compact(directory: PurePath) -> bool:
    """Compact the log of a partition, and return whether the log was sound. A damaged log is left alone."""
    lock = DirectoryLock(directory.parent)
    try:
        swap.finish_all(directory, files.names_in(directory))
        segments = [files.open_file(directory / name) for name in files.names_in(directory) if name.endswith(".log")]
        if not segments or checkpoint.read_epochs(directory / checkpoint.LEADER_EPOCHS) is None:
            return False
        for file in segments:
            if sum(header.size_bytes for _, header in sound_batches(file, file.size_bytes())) < file.size_bytes():
                return False
        largest = max(file.size_bytes() for file in segments)
        Compaction(directory, LogConfig(segment_bytes=largest, delete_retention_ms=_DELETE_RETENTION_MS)).run()
        return True
    finally:
        lock.release()
