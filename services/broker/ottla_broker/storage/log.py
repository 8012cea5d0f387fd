"""One partition's log: batches in, offsets out; segments roll, age and go (rules 1, 57 to 60, 63 to 65).

**Threads.** `append`, `assign_epoch`, `delete_old_segments`, `delete_records_before` and `close` belong to one thread,
the loop's; an append never yields, so what was checked before it still holds when it is done. `read`,
`offset_for_time` and `flush` may run in any thread beside them: the tuple of segments is replaced, never changed, and
a segment's size grows only after its bytes are written.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from ottla_broker.machines import retention
from ottla_broker.machines.epochs import LeaderEpochs
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_broker.storage.placing import placed, stamped
from ottla_broker.storage.reading import BatchReader, FoundOffset, find_time
from ottla_broker.storage.recovery import Recovered, open_segments
from ottla_broker.storage.segment import Segment
from ottla_broker.storage.validator import check_appendable
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP

WRITE_BEHIND_BYTES: Final = 64 << 20
"""How much may wait for the disk where no flush policy asks for less. It costs no throughput; much more of it and the
kernel makes writers wait, 20 ms at a time, and a restart after a crash has more to check."""


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
        # Each is written by one thread only, the loop's and the flushing one's.
        self._appended_bytes = 0
        self._flushed_bytes = 0
        self._flushed_at_ms = -1
        self._durable_active: Segment | None = None
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

    # ---- writing ------------------------------------------------------------------------------------------------

    def append(self, records: bytes, leader_epoch: int, now_ms: int) -> Appended:
        """Give the batches in `records` the next offsets and write them, all or none.

        Each batch keeps its bytes but for offset and leader epoch (rule 1), and with LogAppendTime its timestamps.
        Raises what `check_appendable` raises, or KAFKA_STORAGE_ERROR; the log is then as it was.
        """
        self._check_open()
        config = self.config
        headers = check_appendable(records, config, now_ms)
        append_time_ms = -1
        if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time_ms = now_ms
            records, headers = stamped(records, headers, now_ms)
        base_offset = self.log_end_offset
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch)
        buffers, batches = placed(records, headers, base_offset, leader_epoch)
        last_offset = batches[-1].last_offset
        segment, rolled = self._segments[-1], False
        if segment.must_roll(len(records), last_offset, max(b.max_timestamp_ms for b in batches), now_ms, config):
            segment, rolled = self._roll(now_ms), True
        segment.append(buffers, len(records), batches)
        self.log_end_offset = last_offset + 1
        self._appended_bytes += len(records)
        return Appended(base_offset, last_offset, append_time_ms, last_offset - base_offset + 1, len(records), rolled)

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch's batches begin at the log's end, on the platter before the first of them (rule 4).

        An append does it where it has not been done, at the price of an fsync in the loop: become a leader first.
        """
        assert leader_epoch >= self.epochs.latest, f"epoch {leader_epoch} after epoch {self.epochs.latest}"
        draft = LeaderEpochs(self.epochs.entries)
        if draft.assign(leader_epoch, self.log_end_offset):
            checkpoint.write_epochs(self._disk, self.directory / checkpoint.LEADER_EPOCHS, draft.entries)
            self.epochs.assign(leader_epoch, self.log_end_offset)  # known only once it is written (rule 60)

    def _roll(self, now_ms: int) -> Segment:
        """Seal the active segment and start the next one at the log's end."""
        fresh = Segment(self.directory, self.log_end_offset, self._disk, self.config, now_ms)
        try:
            fresh.activate()
        except OSError as error:
            raise self._disk.error(f"starting a segment of {self.directory.name}", error) from error
        self._segments[-1].seal()
        self._segments = (*self._segments, fresh)
        return fresh

    # ---- reading ------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool = True) -> bytes:
        """Whole batches from the one that holds `offset` on, all below `limit_offset` (the high watermark).

        At most `max_bytes`, but the first batch comes whole (rule 57) unless `min_one_batch` is off; empty where
        `offset` has reached the limit. May wait for the disk. Raises OFFSET_OUT_OF_RANGE outside the log.
        """
        data = self._read(offset, max_bytes, limit_offset, min_one_batch=min_one_batch, hot=False)
        assert data is not None
        return data

    def read_hot(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool = True) -> bytes | None:
        """The same without waiting for the disk: None asks the caller to `read` in a thread."""
        return self._read(offset, max_bytes, limit_offset, min_one_batch=min_one_batch, hot=True)

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> FoundOffset | None:
        """ListOffsets: the first record at or after the time and below the limit, None without one. For a thread.

        -2 is the log's start, -1 the limit, -3 the record with the largest timestamp (KIP-734).
        """
        self._check_open()
        segments = self._segments
        start = self.log_start_offset
        if timestamp_ms == EARLIEST_TIMESTAMP:
            return FoundOffset(start, -1)
        if timestamp_ms == LATEST_TIMESTAMP:
            return FoundOffset(limit_offset, -1)
        if timestamp_ms == MAX_TIMESTAMP:
            newest = max(segments, key=lambda segment: segment.largest.timestamp_ms)
            timestamp_ms, segments = newest.largest.timestamp_ms, (newest,)
        if timestamp_ms < 0:
            return None  # no record has any
        try:
            found = find_time(segments, start, timestamp_ms)
        except FileNotFoundError:
            raise self._gone(start) from None
        except OSError as error:
            raise self._disk.error(f"reading {self.directory.name}", error) from error
        return found if found is not None and found.offset < limit_offset else None

    def _read(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool, hot: bool) -> bytes | None:
        self._check_open()
        segments = self._segments
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        limit_offset = min(limit_offset, self.log_end_offset)
        if offset >= limit_offset:
            return b""
        try:
            return self._reader.read(segments, offset, max_bytes, limit_offset, min_one_batch=min_one_batch, hot=hot)
        except FileNotFoundError:
            raise self._gone(offset) from None
        except OSError as error:
            raise self._disk.error(f"reading {self.directory.name}", error) from error

    def _gone(self, offset: int) -> OttlaError:
        """The error for a segment that was deleted a moment ago, by retention or with the log, or that is lost."""
        self._check_open()
        if offset < self.log_start_offset:
            return self._out_of_range(offset)
        return OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"a segment of {self.directory} that holds offset {offset} is not there any more",
            hint="restore the file, or restart the broker, which then goes on with what is left",
        )

    def _out_of_range(self, offset: int) -> OttlaError:
        return OttlaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} lies outside the log, which goes from {self.log_start_offset} to {self.log_end_offset}",
            hint="start at the earliest or the latest offset",
        )

    # ---- durability ---------------------------------------------------------------------------------------------

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages, flush.ms or WRITE_BEHIND_BYTES ask for a `flush` now."""
        waiting = self.log_end_offset - self.recovery_point
        return waiting > 0 and (
            waiting >= self.config.flush_messages
            or self._appended_bytes - self._flushed_bytes >= WRITE_BEHIND_BYTES
            or now_ms - self._flushed_at_ms >= self.config.flush_ms
        )

    def flush(self, now_ms: int) -> int:
        """fsync what was appended, then advance the recovery point, which is returned. For a thread.

        Raises KAFKA_STORAGE_ERROR; after a failed fsync the whole data directory is offline (rule 20).
        """
        with self._flush_lock:
            self._check_open()
            appended_bytes, ranges = self._appended_bytes, self._ranges()
            end_offset = ranges[-1][1]
            if end_offset > self.recovery_point:
                active = ranges[-1][0]
                for segment, segment_end in ranges:
                    if segment_end > self.recovery_point:
                        self._flush_segment(segment, sealed=segment is not active)
                if active is not self._durable_active:  # its name has to last as its bytes do
                    self._disk.sync_directory(self.directory)
                    self._durable_active = active
                self.recovery_point = end_offset
                self._flushed_bytes = appended_bytes
            self._flushed_at_ms = now_ms
            return end_offset

    def _flush_segment(self, segment: Segment, *, sealed: bool) -> None:
        try:
            segment.sync(sealed=sealed)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and segment not in self._segments:
                return  # retention took it since: nothing is left to keep
            raise self._disk.error(f"flushing {segment.path.name}", error) from error

    # ---- deleting -----------------------------------------------------------------------------------------------

    def delete_old_segments(self, high_watermark: int, now_ms: int) -> list[retention.Cause]:
        """Delete what retention.ms and retention.bytes no longer keep; why each segment went, oldest first."""
        self._check_open()
        facts = [
            retention.SegmentFacts(end, segment.size_bytes, segment.retention_timestamp_ms())
            for segment, end in self._ranges()
        ]
        causes = retention.decide(
            facts,
            log_start_offset=self.log_start_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
            retention_ms=self.config.retention_ms,
            retention_bytes=self.config.retention_bytes,
        )
        if len(causes) == len(facts):
            self._roll(now_ms)
        self._drop(len(causes), self.log_start_offset)
        return causes

    def delete_records_before(self, offset: int, high_watermark: int) -> int:
        """DeleteRecords: nothing before `offset` is served any more; the log start offset after it (KIP-107).

        Whole segments go at once, the rest when retention gets there. Raises OFFSET_OUT_OF_RANGE above the high
        watermark.
        """
        self._check_open()
        if not 0 <= offset <= high_watermark:
            raise OttlaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records can't be deleted up to offset {offset}: the high watermark is {high_watermark}",
                hint="give an offset from 0 to the high watermark, or -1 for the latter",
            )
        if offset > self.log_start_offset:
            self._drop(sum(end <= offset for _, end in self._ranges()[:-1]), offset)
        return self.log_start_offset

    def _drop(self, count: int, log_start_offset: int) -> None:
        """Forget the first `count` segments and rename their files away; `Disk.unlink_discarded` frees the space."""
        dropped, kept = self._segments[:count], self._segments[count:]
        # Readers take the segments first and look at the log start after that: it must never be behind.
        self.log_start_offset = max(log_start_offset, kept[0].base_offset)
        self._segments = kept
        # Not written now: opening the log does the same again.
        self.epochs.truncate_from_start(self.log_start_offset)
        try:
            for segment in dropped:
                segment.discard()
        except OSError as error:
            raise self._disk.error(f"deleting segments of {self.directory.name}", error) from error

    # ---- the rest -----------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def is_offline(self) -> bool:
        """Whether the disk under the log has failed for good (rule 20)."""
        return bool(self._disk.failure)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def close(self, now_ms: int) -> None:
        """Everything on the platter, indexes too, so that the next `open` may be told it is clean."""
        self.flush(now_ms)
        active = self._segments[-1]
        active.seal()
        self._flush_segment(active, sealed=True)
        self._closed = True

    def abandon(self) -> None:
        """Take no more calls; nothing is written. Waits for a flush that runs. For a partition that is deleted."""
        with self._flush_lock:
            self._closed = True
            self._segments[-1].abandon()

    def _ranges(self) -> list[tuple[Segment, int]]:
        """Each segment with the offset after it; for other threads, the end is at most what the segments hold."""
        end_offset = self.log_end_offset
        segments = self._segments
        return list(zip(segments, (*(segment.base_offset for segment in segments[1:]), end_offset), strict=True))

    def _check_open(self) -> None:
        self._disk.check_online()
        if self._closed:
            raise OttlaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the log {self.directory.name} is closed",
                hint="refresh the metadata and try again",
            )
