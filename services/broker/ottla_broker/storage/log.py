"""One partition's log takes batches in and gives offsets out. Its segments roll, age and are deleted.

A log promises three things. It gives each offset once, as far as the flush policy reaches (I3). After any failed append
it ends where it ended before (I25). A later start finds what was fsynced, with everything that is known of it: leader
epochs (rule 1: every batch carries its appender's epoch), producers (rules 25 to 30: repeats are recognized after any
restart), aborted transactions and the shard fence.

The log itself is only the order of the steps. `LogSegments` has the bytes, `Flusher` knows what is fsynced,
`ProducerHistory` what batches say of producers, `EpochsFile` the epochs on disk, and `Compaction` how far cleaning may
go. The rules of a step that spans them are here: what is checked before offsets are given, and what must be on disk
before something else may go.

**Threads.** `read`, `offset_for_time` and `flush` may run in any thread beside everything (`LogSegments`). All else
never runs beside itself: it belongs to the loop, or to one thread that the loop waits for (I26). An append never
yields, so what was checked before it still holds when it is done (I1). `Flusher.lock` is held by whatever changes what
a flush looks at: truncations and the epochs file.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import EBADMSG, EMFILE, ENFILE, ENOMEM
from pathlib import PurePath
from typing import Final, NamedTuple

from ottla_broker.machines import retention
from ottla_broker.machines.epochs import NO_EPOCH, LeaderEpochs, shown_by
from ottla_broker.machines.offsets import NOTHING_FLUSHED, HighWatermark, LogEndOffset, RecoveryPoint
from ottla_broker.machines.producers import Checked, Original, Producers
from ottla_broker.machines.shard import StoredFence
from ottla_broker.storage import checkpoint
from ottla_broker.storage.compaction import Compaction
from ottla_broker.storage.disk import Disk, is_lack_of_room
from ottla_broker.storage.flushing import Flusher
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_broker.storage.log_segments import LogSegments
from ottla_broker.storage.positioned import kept, positioned, stamped
from ottla_broker.storage.producer_history import DamagedBatchesError, ProducerHistory
from ottla_broker.storage.reading import FoundOffset
from ottla_broker.storage.recovery import Recovered, open_segments
from ottla_broker.storage.segment import Ranges, Segment, ranges_of
from ottla_broker.storage.transactions.aborted import AbortedTransactions
from ottla_broker.storage.validator import Walk, check_appendable, check_replicated
from ottla_broker.storage.written_offsets import NotWritten, WrittenOffsets
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import BatchHeader, Buffer, at_offsets, iter_headers, read_header
from ottla_core.records.leader_epochs import EpochStart

_LACKS: Final = (EMFILE, ENFILE, ENOMEM)
"""Errors of a read that say nothing of the file: the process or the machine lacks something now."""


class AppendResult(NamedTuple):
    """The result of an append. `log_append_time_ms` is -1 if the timestamps are the clients'.

    With `duplicate` nothing was written: the offsets and the time are those of the original append (rule 25: a
    duplicate gets the original offset and timestamp).
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    record_count: int
    size_bytes: int
    rolled: bool
    duplicate: bool = False


class Log:
    """The log of one partition. Use `Log.open`. `config` may be replaced at any time and holds from the next call
    on."""

    def __init__(
        self,
        directory: PurePath,
        disk: Disk,
        config: LogConfig,
        epochs_file: checkpoint.EpochsFile,
        epochs: LeaderEpochs,
        state: Recovered,
        history: ProducerHistory,
        flushed: RecoveryPoint,
        written: WrittenOffsets,
        *,
        was_closed: bool,
        checkpointed_start: int,
    ) -> None:
        self.directory = directory
        self.config = config
        self.epochs = epochs
        self._disk: Final = disk
        self._segments: Final = LogSegments(directory, disk, state, history.on_roll)
        self._flusher: Final = Flusher(directory, disk, RecoveryPoint(min(flushed, state.log_end_offset)))
        self._history: Final = history
        self._noted_end = state.log_end_offset
        """All that the batches before this offset change in memory was noted: epochs, producers, transactions and the
        fence. The recovery point never passes it, because a start does not read these batches again (I15)."""
        self.aborted: Final = AbortedTransactions(self._segments, history)
        self.compaction: Final = Compaction(
            self._segments, disk, directory, self._flusher.lock, state.cleaned_before, history.on_replaced
        )
        self._epochs_file: Final = epochs_file
        self.unsecured_until = 0
        """Segments before this offset are due to be deleted, and wait for `secure_deletion`. It is 0 if none waits."""
        self._written: Final = written
        self._secured_start = state.log_start_offset if was_closed else checkpointed_start
        # The offset of a truncation whose checkpoints and epochs are not on disk yet, or None if nothing is unfinished.
        self._unfinished_from: int | None = None
        self._was_closed: Final = was_closed
        self.was_damaged: Final = state.is_damaged
        """It tells whether this start has cut off what may have been acknowledged."""

    @classmethod
    def open(
        cls,
        directory: PurePath,
        disk: Disk,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool = False,
        recovery_point: RecoveryPoint = NOTHING_FLUSHED,
        log_start_offset: int = 0,
        written: WrittenOffsets | None = None,
    ) -> Log:
        """Return the log in `directory`, empty or mended (module recovery). The offsets are those of the checkpoints,
        which `written` keeps."""
        file = checkpoint.EpochsFile(directory, disk)
        entries = file.read(is_durable=clean)
        if entries is None:
            # The epochs file is missing or torn. Every batch carries its epoch, so the epochs come back if all batches
            # are read. Without them the replica could not find where its log diverges from a leader's (rule 2).
            clean, recovery_point = False, NOTHING_FLUSHED
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
        if entries and epochs.latest < entries[-1].epoch:
            # The next start keeps what is stored, so epochs that were cut have to go from the file before any append.
            file.write(epochs, state.log_start_offset, state.log_end_offset)
        # The producers come after the segments are mended: they are replayed from batches that the log really has.
        history = ProducerHistory(directory, disk, state.aborts_before)
        ranges = ranges_of(state.segments, state.log_end_offset)
        try:
            history.restore(ranges, state.snapshots, state.trusted_end, state.cleaned_before)
        except DamagedBatchesError as error:
            raise OSError(EBADMSG, str(error)) from error
        # A snapshot may hold producers that expired while the broker was down (rule 30: expired entries are also
        # dropped when a snapshot loads).
        history.producers.expire(now_ms, config.producer_expiration_ms)
        # An orderly stop fsynced everything. Otherwise only what the checkpoint says is known to be fsynced: recovery
        # has read the rest from the page cache.
        flushed = RecoveryPoint(state.log_end_offset) if clean else recovery_point
        return cls(
            directory,
            disk,
            config,
            file,
            epochs,
            state,
            history,
            flushed,
            written or NotWritten(),
            was_closed=clean,
            checkpointed_start=log_start_offset,
        )

    @property
    def log_start_offset(self) -> int:
        return self._segments.start_offset

    @property
    def log_end_offset(self) -> LogEndOffset:
        return self._segments.end_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """These are the segments, oldest first. The last one is active. Another thread sees them as they are at the
        moment."""
        return self._segments.segments

    # ---- writing ------------------------------------------------------------------------------------------------

    def append(
        self,
        records: Buffer,
        epoch: int,
        now_ms: int,
        *,
        walk: Walk = Walk.WHOLE,
        transactional: bool = False,
        begins_at_zero: bool = False,
    ) -> AppendResult:
        """Give the batches in `records` the next offsets and write them: all of them or none.

        Each batch keeps its bytes except for its offset and leader epoch (rule 1), its compression if the topic has
        another codec, and its timestamps with LogAppendTime. What an idempotent producer repeats is not written again
        (rule 25). Raises what `check_appendable` and `Producers.check` raise, or KAFKA_STORAGE_ERROR; the log is then
        as it was.
        """
        self._check_appendable()
        # All checks come before the first offset is given, over all batches of the request together (rule 27: validate
        # before assigning offsets, with cumulative state). A request with one bad batch leaves nothing in the log.
        records, headers = check_appendable(records, self.config, now_ms, walk=walk, transactional=transactional)
        is_stamped = self.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        # The stamp comes before the producers' check, because the check notes the time that a repeat gets (rule 25: the
        # original offset and timestamp).
        if is_stamped:
            records, headers = stamped(records, headers, now_ms)
        checked = self._history.producers.check(headers, self.log_end_offset, now_ms, begins_at_zero=begins_at_zero)
        # A repeat costs no write, and must not fail because the disk is full: its batch is in the log.
        if checked.original is not None:
            return _repeated(checked.original, is_stamped=is_stamped)
        done = self.append_checked(records, headers, epoch, now_ms, checked)
        return done._replace(log_append_time_ms=now_ms) if is_stamped else done

    def append_checked(
        self, records: Buffer, headers: list[BatchHeader], epoch: int, now_ms: int, checked: Checked | None = None
    ) -> AppendResult:
        """Write batches that may be appended as they are.

        `checked` is what the producers' check returned. It is None for batches without sequences to check: a
        coordinator's, markers and fences. Raises KAFKA_STORAGE_ERROR; the log is then as it was.
        """
        self._disk.check_room()
        self._check_appendable()
        base_offset = self.log_end_offset
        if epoch != self.epochs.latest:
            self.assign_epoch(epoch)
        buffers, batches = positioned(records, headers, base_offset, epoch)
        rolled = self._segments.write(base_offset, buffers, len(records), batches, now_ms, self.config)
        # What the batches change in memory comes after the write: a failed append must leave producers and offsets as
        # they were (I25).
        self._flusher.on_append(len(records))
        if checked is None:
            # Batches that nothing checked still change what is known of producers, transactions and the fence. They are
            # noted as a follower notes them, so leader and followers know the same.
            self._history.on_stored(at_offsets(headers, base_offset), records, now_ms, self.segments[-1])
        else:
            self._history.producers.apply(checked)
        self._noted_end = self.log_end_offset
        last_offset, size_bytes = batches[-1].last_offset, len(records)
        return AppendResult(base_offset, last_offset, -1, last_offset - base_offset + 1, size_bytes, rolled)

    def append_replicated(self, records: bytes, now_ms: int) -> AppendResult:
        """Write a leader's batches as they are, with its offsets and epochs and at any size (rules 1, 28 and 65: a
        follower writes unchanged, does not judge sequences, and accepts any batch size). All of them are written, or
        none. If the leader says more than its batches show, `copy` has to be called instead (`is_shown`).

        It takes the leading batches whose offsets fit into one segment. Those are all of them unless compaction left a
        gap of two thousand million offsets. Raises CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (`check_replicated`) or
        KAFKA_STORAGE_ERROR; the log is then as it was.
        """
        self._disk.check_room()
        self._check_appendable()
        headers = check_replicated(records, self.log_end_offset, self.epochs.latest)
        # Epochs never go back within a log, so if the last batch brings no new epoch, none of them does.
        has_later = headers[-1].leader_epoch > self.epochs.latest
        shown = shown_by(headers, self.log_end_offset, self.epochs.latest) if has_later else ()
        return self._write_replicated(records, headers, self._with_epochs(shown), now_ms)

    def _write_replicated(
        self, records: bytes, headers: list[BatchHeader], epochs: LeaderEpochs, now_ms: int
    ) -> AppendResult:
        buffer, batches = kept(records, headers)
        base_offset, last_offset = headers[0].base_offset, headers[-1].last_offset
        rolled = self._segments.write(base_offset, [buffer], len(buffer), batches, now_ms, self.config)
        self._flusher.on_append(len(buffer))
        self.epochs = epochs
        self._history.on_stored(headers, buffer, now_ms, self.segments[-1])
        self._noted_end = self.log_end_offset
        return AppendResult(base_offset, last_offset, -1, sum(h.record_count for h in headers), len(buffer), rolled)

    def _with_epochs(self, later: Sequence[EpochStart]) -> LeaderEpochs:
        """Return the epochs and those `later` ones. The object is replaced and not changed: a flush may be writing the
        old one in its thread."""
        if not later:
            return self.epochs
        epochs = self.epochs.copy()
        for entry in later:
            epochs.assign(entry.epoch, max(entry.start_offset, self.log_start_offset))
        return epochs

    def is_shown(self, records: bytes, told: Sequence[EpochStart]) -> bool:
        """Return whether `append_replicated` is enough for these batches of a leader: they don't begin before the log's
        end, and a start would find in them all that the leader has `told` of their epochs.

        Raises CORRUPT_MESSAGE if the batches can't be told apart.
        """
        if read_header(records).base_offset < self.log_end_offset:
            return False
        headers = (header for _, header in iter_headers(records))
        return not told or [*told] == shown_by(headers, self.log_end_offset, self.epochs.latest)

    def copy(
        self, records: bytes, told: Sequence[EpochStart], leader_start: int, now_ms: int, *, purged_before: int = 0
    ) -> AppendResult:
        """Write a leader's batches as `append_replicated` does, after what a start could not learn from them is on disk
        (I43). For a thread.

        The epochs that the leader has `told` begin where compaction has left no batch. A start would take them to begin
        later.

        The log's end may lie within the first batch, because the records before were deleted at the leader, whose log
        starts at `leader_start`. If this log has nothing from there on, the whole batch is written, into a segment that
        begins where the batch does, and the log starts where it has ended.

        Tombstones and markers before `purged_before` may be gone at the leader. Raises what `append_replicated` raises.
        """
        self._disk.check_room()
        self._check_appendable()
        # The lock is held for the append as well. A flush in between would store epochs without those that come.
        with self._flusher.lock:
            has_nothing = self.log_end_offset <= max(leader_start, self.log_start_offset)
            headers = check_replicated(records, self.log_end_offset, self.epochs.latest, may_overlap=has_nothing)
            if headers[0].base_offset < self.log_end_offset:
                self._begin_within(headers[0])
            latest, end_offset = self.epochs.latest, headers[-1].next_offset
            later = [entry for entry in told if entry.epoch > latest and entry.start_offset < end_offset]
            epochs = self._with_epochs(later or shown_by(headers, self.log_end_offset, latest))
            self._epochs_file.write(epochs, self.log_start_offset, end_offset)
            self.compaction.purge(purged_before)
            return self._write_replicated(records, headers, epochs, now_ms)

    def _begin_within(self, header: BatchHeader) -> None:
        """Empty the log, and have its segment begin where the batch does that holds the log's end."""
        epoch, end_offset = self.epochs.latest, self.log_end_offset
        self._segments.start_anew(end_offset, self.config, self._on_begun_anew, base_offset=header.base_offset)
        self._settle()
        if epoch != NO_EPOCH:
            self.epochs = LeaderEpochs([EpochStart(epoch, end_offset)])

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch's batches begin at the log's end, before the first of them is written (rule 4).

        The disk is not waited for, so that a broker can take over thousands of partitions at once. `flush` writes the
        epoch before the recovery point passes its batches, and a start that has to recover finds it in the batches.
        Raises FENCED_LEADER_EPOCH if the log knows a later epoch: the metadata is older than what was written here.
        """
        self._check_appendable()
        if leader_epoch < self.epochs.latest:
            raise _older_metadata(self, leader_epoch)
        epochs = self.epochs.copy()
        if epochs.assign(leader_epoch, self.log_end_offset):
            self.epochs = epochs

    # ---- truncating ---------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that holds `offset` and everything after it, and return the log's new end.

        Epochs that begin there are forgotten, and producers are as they were before (rule 29). If nothing is left, the
        log still knows the producers of the segments that were deleted before its start, and the epoch of its start.
        An offset before the log's start can't be kept, so the log begins anew there.

        Everything is fsynced when this returns (rule 60: a truncation reaches the disk before new appends), so it waits
        for the disk, and for a flush that runs. Raises KAFKA_STORAGE_ERROR.
        """
        with self._flusher.lock:
            self._segments.check_open()
            # Nothing is to be cut, but the epochs may know more than the batches: a leader's epoch that never got one.
            if offset >= self.log_end_offset:
                self._forget_epochs(offset)
            elif offset >= self.log_start_offset:
                self._segments.truncate(offset, self.config, self._on_truncated)
            else:
                self._segments.start_anew(offset, self.config, self._on_begun_anew)
            self._settle()
            return self.log_end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Begin anew at `offset`, as a follower does whose leader has nothing of what is in this log.

        The log forgets its records, epochs and producers, and the deleted segments before it.
        """
        with self._flusher.lock:
            self._segments.check_open()
            self._segments.start_anew(offset, self.config, self._on_begun_anew)
            self._settle()

    def take_epoch(self, epoch: int) -> None:
        """Note the leader's epoch at the start of this log, which is empty. For a thread. Raises KAFKA_STORAGE_ERROR.

        An empty log without an epoch can't prove to a leader what lies before its start (I14).
        """
        with self._flusher.lock:
            self._segments.check_open()
            self._settle()
            assert self.log_start_offset == self.log_end_offset, "a log with records has their epochs"
            self.epochs = LeaderEpochs([EpochStart(epoch, self.log_start_offset)])
            self._store_epochs()

    def _on_truncated(self, end_offset: int) -> None:
        # Other bytes will come at the offsets that go, so a recovery point above the new end would vouch for bytes that
        # no fsync has covered. It goes back first: a flush that begins after this must not skip the bytes that come.
        self._flusher.on_truncated(RecoveryPoint(min(self.recovery_point, end_offset)))
        self._history.on_truncated(self._segments.ranges(), self.compaction.cleaned_before)
        self._on_shortened(end_offset)

    def _on_begun_anew(self) -> None:
        self._flusher.on_truncated(RecoveryPoint(self.segments[0].base_offset))
        self._history.on_begun_anew()
        self._on_shortened(0)

    def _on_shortened(self, epochs_end: int) -> None:
        self.compaction.on_truncated(epochs_end)
        self._noted_end = self.log_end_offset
        self._secured_start = min(self._secured_start, self.log_start_offset)
        self._unfinished_from = epochs_end

    def _settle(self) -> None:
        """Finish a truncation on disk: names, checkpoints and epochs. If a step fails, it is done before the next
        append.

        The epochs come last. A start truncates the epochs to where the log ends, but never a log to where its epochs
        end. So a crash before the last step leaves epochs too many, which the next start drops, and never batches
        without an epoch.
        """
        if self._unfinished_from is None:
            return
        self._disk.sync_directory(self.directory)
        # A checkpoint that still named the old recovery point would make the next start trust bytes that were not
        # fsynced.
        self._written.on_truncation()
        self._forget_epochs(self._unfinished_from)
        self._store_epochs()
        self._unfinished_from = None

    def _forget_epochs(self, offset: int) -> None:
        """Forget the epochs that began at or after `offset`. A log that was truncated to its start keeps the epoch
        there: its records of that epoch prove what lay before them."""
        epochs = self.epochs.copy()
        if offset == self.log_start_offset:
            epochs.cut_to(offset, offset)
        else:
            epochs.truncate_from_end(offset)
        if epochs.entries != self.epochs.entries:
            self.epochs = epochs

    def _store_epochs(self) -> None:
        """Write the epochs. The caller holds the lock of the flusher."""
        self._epochs_file.write(self.epochs, self.log_start_offset, self.log_end_offset)

    # ---- reading ------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool = True) -> bytes:
        """Return whole batches from the one that holds `offset` on, all below `limit_offset` (the high watermark).

        They take at most `max_bytes`, but the first batch comes whole (rule 57: a reader must be able to pass a large
        batch) unless `min_one_batch` is off. The result is empty if `offset` has reached the limit. It may wait for the
        disk. Raises OFFSET_OUT_OF_RANGE outside the log.
        """
        data = self._segments.read(offset, max_bytes, limit_offset, min_one_batch=min_one_batch, hot=False)
        assert data is not None
        return data

    def read_hot(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool = True) -> bytes | None:
        """Read without waiting for the disk. None means that the caller has to `read` in a thread."""
        return self._segments.read(offset, max_bytes, limit_offset, min_one_batch=min_one_batch, hot=True)

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> FoundOffset | None:
        """Return the first record at or after the time and below the limit, or None if there is none (ListOffsets). For
        a thread.

        -2 is the log's start, -1 the limit, and -3 the record with the largest timestamp (KIP-734).
        """
        return self._segments.offset_for_time(timestamp_ms, limit_offset)

    # ---- durability ---------------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> RecoveryPoint:
        """Everything before this offset is fsynced."""
        return self._flusher.recovery_point

    def is_flush_due(self, now_ms: int) -> bool:
        """Return whether flush.messages, flush.ms or the bytes that wait call for a `flush` now."""
        return self._flusher.is_due(self.log_end_offset, self.config, now_ms)

    def flush(self, now_ms: int) -> RecoveryPoint:
        """fsync what was appended, then advance the recovery point, and return it. For a thread.

        Raises KAFKA_STORAGE_ERROR. After a failed fsync the whole data directory is offline (rule 20: an fsync is never
        retried, because the kernel may have marked the lost pages as clean).
        """
        with self._flusher.lock:
            self._segments.check_open()
            # The snapshot of the last roll is written before the recovery point passes that roll: a start reads no
            # batches below the point, and needs the producers as they were there (rule 29).
            self._history.write_pending()
            return self._flusher.flush(self._noted_ranges, now_ms, self._store_epochs)

    def _noted_ranges(self) -> Ranges:
        """Return the segments and their ends, without batches that were written and are not noted yet. For a thread
        beside the loop's."""
        noted_end = self._noted_end
        *sealed, (active, end_offset) = self._segments.ranges()
        return (*sealed, (active, min(end_offset, noted_end)))

    def secure_sealed(self) -> RecoveryPoint:
        """Make everything before the active segment durable, and return the recovery point that is then on disk.

        It flushes what was not flushed yet, and writes a checkpoint if the one on disk is behind. The cleaner calls it
        in a thread, because nothing above the recovery point on disk may be compacted (I35). Raises
        KAFKA_STORAGE_ERROR; what is on disk by then stays valid.
        """
        with self._flusher.lock:
            self._segments.check_open()
            # The count is taken with the lock held and compared after the checkpoint is written. A truncation in
            # between lowers the recovery point, and the value of before must not raise it again.
            truncations = self.compaction.truncations
            self._history.write_pending()
            recovery_point = self._flusher.flush_sealed(self._segments.ranges, self._store_epochs)
        # The lock is not held for this: the checkpoint file belongs to all logs of the directory, and a truncation of
        # this log must not wait for theirs.
        self.compaction.on_secured(self._written.cover(recovery_point), truncations)
        return self.compaction.recovery_point

    @property
    def next_recovery_point(self) -> RecoveryPoint:
        """This is the offset to which `secure_sealed` advances the recovery point, unless that is above it already."""
        return RecoveryPoint(self.segments[-1].base_offset)

    def close(self, now_ms: int) -> None:
        """fsync everything, including indexes and producers, so that the next `open` may take the log for clean."""
        if self._segments.is_closed:
            return  # the log could not be deleted yet
        active = self._segments.segments[-1]
        self.flush(now_ms)
        with self._flusher.lock:
            self._store_epochs()
        # A broker closes thousands of logs within its stop limit. A log that was opened clean and not touched since has
        # all its files on disk already.
        if not (self._was_closed and self._segments.are_as_opened):
            active.seal()
            self._flusher.flush_segment(active, self._segments.ranges, sealed=True)
            # A snapshot saves the next start from reading the active segment. A short segment without producers is read
            # faster than a snapshot is written and fsynced.
            if not (active.is_short and self._history.is_empty):
                self._history.write(self._segments.ranges())
        self._segments.is_closed = True

    def abandon(self) -> None:
        """Reject further calls, and write nothing. It waits for a flush that runs. For a partition that is deleted."""
        with self._flusher.lock:
            self._segments.is_closed = True
            for segment in self.segments:
                segment.abandon()

    # ---- deleting -----------------------------------------------------------------------------------------------

    def delete_old_segments(self, high_watermark: HighWatermark, now_ms: int) -> list[retention.DeletionCause]:
        """Delete what retention.ms and retention.bytes no longer keep, and return why each segment went, oldest
        first."""
        self._segments.check_open()
        causes, end_offset = self._segments.expired(high_watermark, now_ms, self.config, self.compaction.held_from)
        # The active segment is due as well. It is rolled first, because an append needs a segment at any moment.
        if end_offset > self.segments[-1].base_offset:
            self._segments.roll(self.log_end_offset, now_ms, self.config)
        return causes[: self._drop(end_offset, self.log_start_offset)]

    def delete_records_before(self, offset: int, high_watermark: HighWatermark) -> int:
        """Serve nothing before `offset` any more (DeleteRecords, KIP-107), and return the new log start offset.

        Whole segments go at once if a start needs nothing of them, the rest when retention gets there. Raises
        OFFSET_OUT_OF_RANGE above the high watermark, because a record that is not committed may still be truncated, and
        an offset above the log's end does not exist yet.
        """
        self._segments.check_open()
        if not 0 <= offset <= high_watermark:
            raise _not_deletable(offset, high_watermark)
        if offset > self.log_start_offset:
            self._drop(offset, offset)
        return self.log_start_offset

    def _drop(self, until: int, log_start_offset: int) -> int:
        """Forget the segments before `until`, rename their files away, and return how many segments went.

        `Disk.unlink_discarded` frees the space later, because deleting large files takes long.

        Segments of which a start still needs something stay until `secure_deletion` has been called. So no call of the
        writer waits for the disk.
        """
        # A cleaning reads the segments from there on in another process. It is not disturbed: retention has its turn
        # before the next cleaning begins.
        until = min(until, self.compaction.held_from)
        ends = [end for _, end in self._segments.ranges()[:-1] if end <= until]
        secured = next((end for end in reversed(ends) if self._is_secured(end)), 0)
        self.unsecured_until = ends[-1] if ends and secured < ends[-1] else 0
        dropped = self._segments.drop(secured, log_start_offset)
        # The epochs are not written now: that would cost an fsync on the loop, and opening the log drops the same
        # epochs again. The object is replaced and not changed: a flush may be writing the old one in its thread.
        epochs = self.epochs.copy()
        epochs.move_start(self.log_start_offset, self._written.log_start)
        self.epochs = epochs
        try:
            for segment in dropped:
                segment.discard()
            if dropped:
                self._history.on_dropped(self._segments.segments[0].base_offset)
        except OSError as error:
            raise self._disk.error(f"deleting segments of {self.directory.name}", error) from error
        return len(dropped)

    def _is_secured(self, until: int) -> bool:
        """Return whether a start needs nothing of the segments before `until`, and can read those that come back.

        A power cut may undo a part of the deletion. If a segment came back without its bytes, a start would take them
        for lost, and cut off all that follows.
        """
        flusher = self._flusher
        if not (self._history.is_kept(until) and flusher.has_synced(until - 1)):
            return False
        return flusher.has_synced(until) or (flusher.is_name_durable(until) and self._is_start_on_disk(until))

    def secure_deletion(self) -> None:
        """Write down what only segments show that are due to be deleted, so that retention may delete them.

        All of them show what their producers have sent last. A start that did not know it would take the next batch of
        such a producer for one that is out of order, however often it is sent (rule 25).

        If no record right behind them is fsynced, a power cut may take all the rest. Then they show the last epoch and
        where the log ends, which is the base offset of the next segment. A log that lost both would start again at an
        offset that it has given before, or in an older epoch (I3, I18). They are fsynced, too (`_is_secured`).

        For a thread. Raises KAFKA_STORAGE_ERROR. If the disk has no room for the producers, or the segments can't be
        read, they may go nevertheless. That they can't be read says nothing of the rest of the disk, so only an error
        of writing takes it offline.
        """
        with self._flusher.lock:
            self._segments.check_open()
            until, (*sealed, (active, _)) = self.unsecured_until, self._segments.ranges()
            try:
                if sealed and not self._flusher.has_synced(until):
                    # If all sealed segments are due, this is the last of them. The others may go even if there is no
                    # room on the disk for what comes next.
                    self._flusher.sync_sealed(min(until, sealed[-1][0].base_offset), self._segments.ranges)
                self._history.keep(sealed, until, self.compaction.cleaned_before)
                if until == active.base_offset:
                    self._store_epochs()
                    self._flusher.make_names_durable(active)
            except OttlaError as error:
                if is_lack_of_room(error):
                    self._history.give_up(until)
                raise
            except (OSError, DamagedBatchesError) as error:
                if isinstance(error, FileNotFoundError) and self.segments[0] is not sealed[0][0]:
                    return  # DeleteRecords has taken them meanwhile
                if isinstance(error, OSError) and error.errno in _LACKS:
                    raise self._disk.error(f"reading {self.directory.name}", error) from error
                self._history.give_up(until)
                raise _unreadable(self, until, error) from error

    @property
    def secured_start(self) -> int:
        """This is the log start that may be written down: the log's start, or the one before it as long as the epoch of
        the records between the two is not on disk.

        A power cut may take all records that are left. Then the log is empty at the start that was written down. With
        an older epoch than that of its deleted records, it would lose an election to a shorter log, which would give
        their offsets again (I3, I18). For any thread.
        """
        start = self.log_start_offset  # before the epochs, which know what lies before an earlier start
        if start > self._secured_start and self._unfinished_from is None and self._is_start_on_disk(start):
            self._secured_start = start
        return min(start, self._secured_start)

    @property
    def has_unsecured_start(self) -> bool:
        """It tells whether `secure_start` has something to write."""
        return self.secured_start < self.log_start_offset and self.epochs.latest != NO_EPOCH

    def secure_start(self) -> None:
        """Write down the epochs, so that the log's start may be written down. For a thread. Raises
        KAFKA_STORAGE_ERROR."""
        with self._flusher.lock:
            self._segments.check_open()
            if self._unfinished_from is None:  # otherwise the epochs are written before the next append
                self._store_epochs()

    def _is_start_on_disk(self, start: int) -> bool:
        """Return whether a log that is empty at `start` would have the epoch of the last record before it."""
        epochs = self.epochs
        epoch = epochs.epoch_before(start)
        if epoch == NO_EPOCH and epochs.entries:
            # The log was copied from there on, or has forgotten what came before. So its first epoch has to do.
            epoch = epochs.entries[0].epoch
        return epoch != NO_EPOCH and self._epochs_file.has(epoch)

    @property
    def last_epoch(self) -> int:
        """It is the epoch of the last record, or the newest epoch if there is no record.

        A leader that has appended nothing in its epoch proves nothing by it. If it led by metadata that were restored
        from a backup, other logs may be longer.
        """
        end = self.log_end_offset
        return self.epochs.epoch_of(end - 1) if end > self.log_start_offset else self.epochs.latest

    @property
    def producers(self) -> Producers:
        """This is what the log knows of its idempotent producers."""
        return self._history.producers

    @property
    def fence(self) -> StoredFence:
        """This is the highest fence of a shard's log. Only its owner may append (I19)."""
        return self._history.fence

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments.segments)

    @property
    def is_offline(self) -> bool:
        """It tells whether the disk under the log has failed for good (rule 20)."""
        return bool(self._disk.failure)

    @property
    def is_read_only(self) -> bool:
        """It tells whether the log's disk takes no appends for the moment, but is not broken."""
        return bool(self._disk.full) and not self._disk.failure

    def _check_appendable(self) -> None:
        """Raise if the log takes no appends, and finish a truncation whose last steps have failed.

        Rule 60: a truncation is on disk before the next append. Otherwise a crash could bring back checkpoints or
        epochs that describe the bytes that were cut off.
        """
        self._segments.check_open()
        if self._unfinished_from is not None:
            with self._flusher.lock:
                self._settle()


def _repeated(original: Original, *, is_stamped: bool) -> AppendResult:
    time_ms = original.timestamp_ms if is_stamped else -1
    return AppendResult(original.first_offset, original.last_offset, time_ms, 0, 0, rolled=False, duplicate=True)


def _unreadable(log: Log, until: int, error: OSError | DamagedBatchesError) -> OttlaError:
    reason = (error.strerror if isinstance(error, OSError) else "") or error
    return OttlaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"reading {log.directory.name} failed: {reason}. The log forgets the producers before offset {until}",
        hint="the segments before that offset are deleted nevertheless; check the disk",
    )


def _older_metadata(log: Log, leader_epoch: int) -> OttlaError:
    return OttlaError(
        ErrorCode.FENCED_LEADER_EPOCH,
        f"the log in {log.directory.name} has leader epoch {log.epochs.latest}, but the metadata has {leader_epoch}: "
        "the metadata is older than the log",
        hint="etcd may have been restored from a backup; the partition needs an election with a higher epoch",
    )


def _not_deletable(offset: int, high_watermark: HighWatermark) -> OttlaError:
    return OttlaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"records can't be deleted up to offset {offset}: the high watermark is {high_watermark}",
        hint="use an offset from 0 to the high watermark, or -1 for the high watermark",
    )
