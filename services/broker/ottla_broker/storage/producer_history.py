"""The producers of one log, kept through restarts and truncations: snapshots, and the batches after the newest one
(rule 29). With them the highest shard fence, which goes the same ways, and what each segment's index has of the aborted
transactions.

A snapshot is taken where the log rolls, as a copy in memory that the next flush writes, and where it is closed. At an
orderly start nothing is read but the newest one. A missing or torn one only costs time: an older one and the headers of
more batches give the same result. The older one is of no use where compaction has taken batches after it, because a
transaction that is open in it may have ended in one of them. Then the headers of the whole log are read. They give the
same result, because a clean leaves the newest batch of each producer, and a transaction's marker as long as it leaves a
record of the transaction. What a truncated log said can't come back: its snapshots go with it.

One snapshot can't be missing: the one where the first segment begins, once segments before it were deleted. Only it
knows the producers that have written nothing since. So segments go only after `keep` has written it, from the headers
of the batches that are to go if no roll has left it. It is valid for as long as the log begins there, wherever a power
cut or a truncation ends the log. A log without it, because a full disk had no room for it or a power cut has taken
batches before the log's start, forgets its producers, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Final, TypeAlias

from ottla_broker.machines.producers import Producers
from ottla_broker.machines.shard import NO_FENCE, StoredFence
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage import files, producer_snapshot
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.producer_snapshot import ProducerSnapshot
from ottla_broker.storage.segment import Ranges, Segment
from ottla_core.errors import OttlaError
from ottla_core.records.batch import NO_PRODUCER_ID, BatchHeader, Buffer, body_crc, check_stored
from ottla_core.records.control import marker_of
from ottla_core.records.fence import fence_of

Batches: TypeAlias = Iterator[tuple[int, BatchHeader]]
"""Batches of a segment, each with its position."""

_logger = logging.getLogger(__name__)


class DamagedBatchesError(Exception):
    """Batches can't be read as what they were when they were written, so nobody knows what they said."""


class _Contents:
    """What batches contain, noted one after the other."""

    def __init__(self, producers: Producers, fence: StoredFence) -> None:
        self.producers: Final = producers
        self.fence = fence

    def on_data(self, header: BatchHeader, seen_at_ms: int) -> bool:
        """Note a batch that is no control batch. Return False if it is of a producer's epoch that is over."""
        return header.producer_id == NO_PRODUCER_ID or self.producers.on_stored(header, seen_at_ms)

    def on_control(self, header: BatchHeader, batch: Buffer, seen_at_ms: int) -> AbortedTransaction | None:
        """Note a control batch, and return the transaction that it has aborted, if any. The last of the fences is the
        highest."""
        if header.producer_id == NO_PRODUCER_ID:
            fence = fence_of(batch)
            if fence is not None:
                self.fence = StoredFence(fence, header.base_offset)
            return None
        marker = marker_of(batch)
        if marker is not None:
            return self.producers.on_marker(header, marker, seen_at_ms)
        self.producers.on_stored(header, seen_at_ms)
        return None


class ProducerHistory:
    """`producers` are those at the log's end. `restore` and truncations replace the object, and `fence` likewise."""

    def __init__(self, directory: PurePath, disk: Disk, aborts_before: int = 0) -> None:
        self._directory: Final = directory
        self._disk: Final = disk
        self._contents = _Contents(Producers(), NO_FENCE)
        self._pending: list[tuple[int, ProducerSnapshot]] = []
        self._usable: Final[set[int]] = set()
        """The offsets of the snapshots on disk that this process has written, or has read without an error."""
        self._given_up_before = 0
        self.aborts_before = aborts_before
        """No aborted transaction ends at or after this offset."""

    @property
    def producers(self) -> Producers:
        return self._contents.producers

    @property
    def fence(self) -> StoredFence:
        return self._contents.fence

    def restore(self, ranges: Ranges, offsets: list[int], trusted_end: int, cleaned_before: int) -> None:
        """Restore the producers from a snapshot, one of those at `offsets`, and from the batches after it.

        It uses the newest one that does not lie beyond `trusted_end`, so that the segments learn again which
        transactions were aborted from there on; or the one where the first segment begins, if that is later. No clean
        has taken anything at or after `cleaned_before`. CRCs are checked, because index files and snapshots keep what
        was read. Raises OSError, or DamagedBatchesError for a control batch: nobody can tell then whether its
        transaction was committed.
        """
        first_offset, end_offset = ranges[0][0].base_offset, ranges[-1][1]
        if self._remove(offset for offset in offsets if offset > end_offset):
            # The snapshots must not come back once other batches lie before their offsets.
            self._disk.sync_directory(self._directory)
        start, contents = self._newest_before(
            min(end_offset, max(trusted_end, first_offset)), ranges, offsets, cleaned_before
        )
        bases = {segment.base_offset for segment, _ in ranges}
        self._remove(offset for offset in offsets if offset < start and offset not in bases)
        for segment, segment_end in ranges:
            if _has_stale_index(segment, segment_end, start):
                aborted = list(_aborted_in(segment, _batches_from(segment, start), contents))
                segment.aborted.replace_from(start, aborted)
                segment.aborted.sync(self._disk)
                self.aborts_before = segment_end if aborted else self.aborts_before
        if start < first_offset:
            # A kill may have interrupted a deletion. Then only the snapshot where the deletion was to end knows the
            # producers of the segments that had gone by then.
            later, known = self._newest(offset for offset in reversed(offsets) if start < offset <= end_offset)
            if later and not _is_cleaned(ranges, later, cleaned_before):
                contents = known
                for segment, segment_end in ranges:
                    if segment_end > later:
                        _note_all(segment, _batches_from(segment, later), contents)
        self._contents = contents

    def on_stored(self, headers: Iterable[BatchHeader], records: Buffer, now_ms: int, segment: Segment) -> None:
        """Note batches that were written behind all others, into `segment`: batches from a leader (rule 28), or others
        whose sequences the producers do not check."""
        at, contents = 0, self._contents
        for header in headers:
            begin, at = at, at + header.size_bytes
            if header.is_control:
                aborted = contents.on_control(header, memoryview(records)[begin:at], now_ms)
                if aborted is not None:
                    segment.aborted.add(aborted)
                    self.aborts_before = header.next_offset
            elif not contents.on_data(header, now_ms):
                _logger.warning(
                    "%s: the leader accepted a batch from producer %d with the outdated epoch %d",
                    self._directory.name,
                    header.producer_id,
                    header.producer_epoch,
                )

    def on_roll(self, offset: int) -> None:
        """Note that a segment begins at `offset`, where the log ends. `write_pending` writes what is known now."""
        self._pending = [(offset, self._snapshot())]

    def on_truncated(self, ranges: Ranges, cleaned_before: int) -> None:
        """Note that the log ends earlier. What deleted segments have said stays, even if no record is left. The caller
        syncs the directory."""
        self._pending.clear()
        self._given_up_before = 0
        end_offset = ranges[-1][1]
        self._remove(offset for offset in self._offsets() if offset > end_offset)
        ranges[-1][0].aborted.replace_from(end_offset, ())
        if self.fence.offset >= end_offset or self.producers.reaches(end_offset):
            self._restore_or_forget(ranges, end_offset, cleaned_before)
        ranges[-1][0].aborted.sync(self._disk)

    def on_begun_anew(self) -> None:
        """Note that the log begins anew, with nothing of what it had. The caller syncs the directory."""
        self._pending.clear()
        self._given_up_before = 0
        self._remove(self._offsets())
        self._contents = _Contents(Producers(), NO_FENCE)

    def _restore_or_forget(self, ranges: Ranges, end_offset: int, cleaned_before: int) -> None:
        """Restore the producers at the log's new end, or forget them if a control batch is damaged. A producer that is
        not known may go on."""
        try:
            self.restore(ranges, self._offsets(), end_offset, cleaned_before)
        except DamagedBatchesError as error:
            _logger.warning("%s is truncated and forgets its producers: %s", self._directory.name, error)
            fence = self.fence if self.fence.offset < end_offset else NO_FENCE
            self._contents = _Contents(Producers(), fence)
            self._pending = [(end_offset, self._snapshot())]  # so that the next start does not read that batch

    def on_dropped(self, first_offset: int) -> None:
        """Discard the snapshots of the segments before that offset, which are gone. The newest snapshot of all
        stays."""
        for offset in self._offsets()[:-1]:
            if offset < first_offset:
                self._discard(offset)

    def on_replaced(self, base_offsets: Iterable[int]) -> None:
        """Discard the snapshots at these offsets, where no segment begins any more. For any thread."""
        for offset in base_offsets:
            self._discard(offset)

    def _discard(self, offset: int) -> None:
        self._usable.discard(offset)
        with suppress(FileNotFoundError):  # a roll may not have left one
            self._disk.discard(producer_snapshot.path_of(self._directory, offset))

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self.fence.exists

    def is_kept(self, offset: int) -> bool:
        """Return whether a start needs no batch before `offset` to know the producers, or whether `give_up` was called
        for these batches."""
        return self.is_empty or offset in self._usable or offset <= self._given_up_before

    def keep(self, sealed: Ranges, offset: int, cleaned_before: int) -> None:
        """Have a usable snapshot on disk at `offset`, where a sealed segment ends: all before it are to be deleted.

        If no roll has left one, it is made of an earlier one and of the batches in between, so it costs at most reading
        the headers of what is deleted. For a thread, with the lock of the flusher held. Raises what
        `Disk.replace_file` raises. Raises OSError or DamagedBatchesError if the batches can't be read,
        FileNotFoundError if they are gone.

        The walk has to reach the end of each segment, because a snapshot of what comes before damage would be stale:
        it would refuse a producer for ever that went on in what is deleted. CRCs are not checked. That would read each
        byte of gigabytes, while flushes and truncations wait for the lock.
        """
        ranges = [(segment, end) for segment, end in sealed if end <= offset]
        is_an_end = bool(ranges) and ranges[-1][1] == offset  # or else a truncation has come in between
        if self.is_kept(offset) or not is_an_end:
            return
        self.write_pending()
        if offset in self._usable:
            return
        start, contents = self._newest_before(offset, ranges, self._offsets(), cleaned_before)
        if start < offset:
            for segment, end in ranges:
                if end > start:
                    _note_all(segment, _all_batches_from(segment, start), contents)
            # Only what is below the high watermark is deleted, so no transaction that ended here has to be kept.
            self._write(offset, ProducerSnapshot(contents.producers.entries(), contents.fence))

    def give_up(self, offset: int) -> None:
        """Note that there will be no snapshot at `offset`, because the disk has no room for it or the batches can't be
        read. What is before it may go nevertheless: deleting it makes room, and a producer that is not known may go
        on."""
        self._given_up_before = offset

    def write_pending(self) -> None:
        """Write the snapshot that waits, in the flushing thread. If it can't be written, the log does without it,
        unless the disk is broken."""
        while self._pending:
            try:
                self._write(*self._pending.pop())
            except OttlaError as error:
                self._disk.check_online()
                _logger.warning("%s", error)

    def write(self, ranges: Ranges) -> None:
        """Write a snapshot, because the log is being closed. Raises what `Disk.replace_file` raises."""
        end_offset = ranges[-1][1]
        if end_offset > ranges[0][0].base_offset and end_offset not in self._offsets():
            self._write(end_offset, self._snapshot())

    def _offsets(self) -> list[int]:
        return producer_snapshot.offsets_in(files.names_in(self._directory))

    def _snapshot(self) -> ProducerSnapshot:
        return ProducerSnapshot(self.producers.entries(), self.fence, self.producers.transactions.ended())

    def _write(self, offset: int, snapshot: ProducerSnapshot) -> None:
        self._disk.replace_file(producer_snapshot.path_of(self._directory, offset), producer_snapshot.encode(snapshot))
        self._usable.add(offset)
        self._given_up_before = 0

    def _newest_before(
        self, offset: int, ranges: Ranges, offsets: list[int], cleaned_before: int
    ) -> tuple[int, _Contents]:
        """Return the offset of the newest snapshot that lies at or before `offset` and can be built upon, and its
        contents. Without one the offset is 0."""
        first_offset = ranges[0][0].base_offset
        start, contents = self._newest(each for each in reversed(offsets) if each <= offset)
        is_cleaned = start > 0 and _is_cleaned(ranges, start, cleaned_before)
        if is_cleaned:
            _logger.warning(
                "%s was compacted after the snapshot at offset %d; reading the whole log", self._directory, start
            )
            start, contents = self._newest(each for each in reversed(offsets) if each <= first_offset)
        if start < first_offset:
            # Batches are gone that came after the snapshot. A producer that went on in them would be refused for ever
            # by what is known from before, and one that is not known may go on.
            contents = _Contents(Producers(), contents.fence)
        elif is_cleaned:
            contents.producers.transactions.forget_open()  # their markers may be gone
        return start, contents

    def _newest(self, offsets: Iterable[int]) -> tuple[int, _Contents]:
        """Return the offset of the first of these snapshots that can be read, and its contents."""
        for offset in offsets:
            path = producer_snapshot.path_of(self._directory, offset)
            try:
                entries, fence, ended = producer_snapshot.decode(files.read_bytes(path))
                self._usable.add(offset)
                return offset, _Contents(Producers(entries, ended), fence)
            except ValueError as error:
                _logger.warning("%s can't be used (%s); continuing without it", path, error)
                files.remove(path)
        return 0, _Contents(Producers(), NO_FENCE)

    def _remove(self, offsets: Iterable[int]) -> bool:
        """Remove the snapshots at these offsets. Return whether there were any."""
        removed = list(offsets)
        for offset in removed:
            self._usable.discard(offset)
            files.remove_if_there(producer_snapshot.path_of(self._directory, offset))
        return bool(removed)


def _has_stale_index(segment: Segment, end_offset: int, start: int) -> bool:
    """Return whether a segment's index may differ from its batches. What is before `start` is trusted."""
    # A power cut may take all batches of a segment and leave its index, whose entries would hide what is written at
    # their offsets later.
    return end_offset > start or end_offset == segment.base_offset


def _is_cleaned(ranges: Ranges, start: int, end: int) -> bool:
    """Return whether a clean has removed anything between `start` and `end`.

    It leaves gaps between batches, or fewer records in a batch than it has offsets. A segment's last batch stays.
    What is missing before the first segment was taken by retention."""
    expected = max(start, ranges[0][0].base_offset)
    for segment, segment_end in ranges:
        if segment.base_offset >= end:
            break
        if segment_end <= start:
            continue
        for _, header in _batches_from(segment, start):
            if header.base_offset > expected or header.record_count <= header.last_offset_delta:
                return True
            expected = header.next_offset
    return False


def _batches_from(segment: Segment, start: int) -> Batches:
    """Return the batches from `start` on, each with its position, up to the first bytes that can't be a batch.

    A bit that was flipped in one read does not count. Raises DamagedBatchesError if a batch before them is damaged.
    """
    return segment.settled_from(_position_of(segment, start))


def _position_of(segment: Segment, start: int) -> int:
    """Return where the first batch begins that ends at or after `start`, or the segment's size if there is none. Raises
    DamagedBatchesError if a batch that it passes over is damaged."""
    try:
        position = 0 if start <= segment.base_offset else segment.position_of(start)
    except OttlaError as error:
        raise DamagedBatchesError(error.message) from error
    return segment.size_bytes if position is None else position


def _all_batches_from(segment: Segment, start: int) -> Batches:
    """Yield the batches from `start` on, of which there is at least one. CRCs are not checked. Raises
    DamagedBatchesError unless the batches reach the segment's end."""
    end = 0
    for at, header in segment.headers_from(_position_of(segment, start)):
        end = at + header.size_bytes
        yield at, header
    if end < segment.size_bytes:
        raise DamagedBatchesError(
            f"the batches of {segment.path} from offset {start} on end at {end} of {segment.size_bytes}"
        )


def _note_all(segment: Segment, batches: Batches, contents: _Contents) -> None:
    """Note these batches of a segment whose index has the aborted transactions already."""
    for _ in _aborted_in(segment, batches, contents):
        pass


def _aborted_in(segment: Segment, batches: Batches, contents: _Contents) -> Iterator[AbortedTransaction]:
    """Note these batches of a segment. Yield the transactions that they have aborted."""
    # A producer of an earlier run has been idle at least since the file was last written.
    seen_at_ms = segment.changed_at_ms()
    for at, header in batches:
        if not header.is_control:
            contents.on_data(header, seen_at_ms)
        elif (aborted := _noted_control(segment, at, header, contents, seen_at_ms)) is not None:
            yield aborted


def _noted_control(
    segment: Segment, at: int, header: BatchHeader, contents: _Contents, seen_at_ms: int
) -> AbortedTransaction | None:
    """Note a control batch in a segment's file. Raises DamagedBatchesError if it is damaged."""
    batch = segment.file().read(at, header.size_bytes)
    if body_crc(batch) != header.crc:
        # A bit may have been flipped on the way from the disk.
        batch = segment.file().read(at, header.size_bytes)
    try:
        check_stored(batch)
        return contents.on_control(header, batch, seen_at_ms)
    except OttlaError as error:
        raise DamagedBatchesError(f"the control batch at {at} of {segment.path} is damaged: {error.message}") from error
