"""One partition's log: batches in, offsets out; segments roll, age and go (rules 1, 57 to 60, 63 to 65).

**Threads.** `append`, `assign_epoch`, `delete_old_segments`, `delete_records_before` and `close` belong to one thread,
the loop's; an append never yields, so what was checked before it still holds when it is done. `read`,
`offset_for_time` and `flush` may run in any thread beside them: the tuple of segments is replaced, never changed, and
a segment's size grows only after its bytes are written.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from ottla_broker.machines import retention
from ottla_broker.machines.epochs import LeaderEpochs
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_broker.storage.reading import BatchReader
from ottla_broker.storage.recovery import Recovered, open_segments
from ottla_broker.storage.segment import PlacedBatch, Segment
from ottla_broker.storage.validator import check_appendable
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import BatchHeader, placed_prefix, read_header, with_log_append_time

WRITE_BEHIND_BYTES: Final = 64 << 20
"""How much may wait for the disk where no flush policy asks for less: beyond, the kernel stops writers for
milliseconds at a time, and a restart after a crash has more to check."""

_PREFIX_SIZE: Final = 16  # what `placed_prefix` replaces


class Appended(NamedTuple):
    """What an append came to. `log_append_time_ms` is -1 where timestamps are the clients'."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    record_count: int
    size_bytes: int
    rolled: bool


class Log:
    """Use `Log.open`. `config` may be replaced at any time and holds from the next call on."""

    def __init__(
        self, directory: Path, disk: Disk, config: LogConfig, epochs: LeaderEpochs, state: Recovered, *, flushed: int
    ) -> None:
        self.directory = directory
        self.config = config
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.recovery_point = min(flushed, state.log_end_offset)
        """All before it is on the platter."""
        self.epochs: Final = epochs
        self._disk: Final = disk
        self._segments = tuple(state.segments)
        self._reader: Final = BatchReader()
        self._flush_lock: Final = Lock()
        self._unflushed_bytes = 0
        self._flushed_at_ms = -1
        self._closed = False

    @classmethod
    def open(
        cls,
        directory: Path,
        disk: Disk,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> Log:
        """The log in `directory`, empty or mended; the offsets are those of the checkpoints (module recovery)."""
        path = directory / checkpoint.LEADER_EPOCHS
        entries = checkpoint.read_epochs(path)
        if entries is None:
            clean, recovery_point = False, 0  # the batches know the epochs, so they all have to be read
        epochs = LeaderEpochs(entries or ())
        state = open_segments(
            directory,
            disk,
            config,
            epochs,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
        )
        if entries is None or epochs.entries != tuple(entries):
            checkpoint.write_epochs(disk, path, epochs.entries)
        return cls(directory, disk, config, epochs, state, flushed=state.log_end_offset if clean else recovery_point)
