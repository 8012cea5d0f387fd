"""Recovery opens a log's files after the process that wrote them is gone (rule 58).

A killed process may leave half a batch, an index that is ahead of its log, or a deletion that is half done. After a
power cut any bytes that were not fsynced may be missing, in any order: the end of one segment may be lost while a later
segment is whole. A start must not serve such a log, and can't ask another process what is right.

The recovery point separates what is known from what is not. Everything below it was fsynced, with its epochs and its
producers' snapshot, and is trusted. Every segment from the one that holds the recovery point on is read whole: the CRC
of each batch must be right, and offsets must only grow. The first bad byte ends the log. The segment is truncated
there, later segments go, since they would leave a hole, and the indexes are built again (rule 59: index files are only
hints). A killed process leaves nothing that is bad but a part of its last append. Whatever else is found was damaged by
the disk, and what is cut off with it was perhaps acknowledged.

After an orderly stop all of it was fsynced. Then the indexes are trusted, and only the last few kilobytes and the last
batch of each log are read. If that batch's CRC is wrong or the log does not end at the recovery point, the stop counts
for nothing.

Each step may be repeated without changing the result, so a crash in the middle of a recovery is a crash like any other.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from ottla_broker.machines.epochs import LeaderEpochs, shown_by
from ottla_broker.machines.offsets import LogEndOffset, RecoveryPoint
from ottla_broker.storage import files, swap
from ottla_broker.storage.disk import DELETED_SUFFIX, TEMPORARY_SUFFIX, Disk
from ottla_broker.storage.log_config import MAX_INT32, MAX_INT64, LogConfig
from ottla_broker.storage.producer_snapshot import offsets_in
from ottla_broker.storage.scan import is_torn, sound_batches
from ottla_broker.storage.segment import Segment
from ottla_broker.storage.swap import BESIDE_LOG, CLEANED, LOG_SUFFIX, SWAP
from ottla_broker.storage.transactions import aborted_index
from ottla_core.records.batch import BatchHeader
from ottla_core.records.leader_epochs import EpochStart

_HALF_DONE: Final = (DELETED_SUFFIX, TEMPORARY_SUFFIX, CLEANED, SWAP)
SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """Segments in order, the last of them active and open for appends; never without one."""

    segments: list[Segment]
    log_end_offset: LogEndOffset
    log_start_offset: int
    snapshots: list[int]
    """These are the offsets of the producers' snapshots, the newest last."""
    trusted_end: int
    """The index files of aborted transactions are trusted below this offset."""
    aborts_before: int
    """No aborted transaction in these index files ends at or after this offset."""
    cleaned_before: int
    """No clean has taken anything at or after this offset, because cleans stay below the recovery point. If that point
    is not known, any segment may be a cleaned one."""
    is_damaged: bool
    """It tells whether something was cut off that a killed process does not leave."""


def open_segments(
    directory: PurePath,
    disk: Disk,
    config: LogConfig,
    epochs: LeaderEpochs,
    *,
    clean: bool,
    recovery_point: RecoveryPoint,
    log_start_offset: int,
    now_ms: int,
) -> Recovered:
    """Return the segments of `directory`, mended. `epochs` are those on disk, and are cut to what the log still has.

    The batches only add later epochs. The stored ones stay, because compaction may have taken the first batches of an
    epoch that is known: taken from the batches alone, the epoch would seem to begin later than it did.
    """
    names = _settled_names(directory)
    bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if SEGMENT_NAME.fullmatch(name))
    segments = [Segment(directory, base, disk, config, now_ms) for base in bases]
    sealed_count = max(0, len(segments) - 1) if clean else _count_below(bases, recovery_point)
    for segment in segments[:sealed_count]:
        # A broker has thousands of sealed segments, most of which are not read soon. Their indexes are opened when they
        # are used.
        segment.load_when_used()
    log_end_offset, is_damaged, gaps_before = -1, False, MAX_INT64
    if clean and segments:
        log_end_offset = segments[-1].load()
        # An orderly stop has fsynced everything. If the end is another one, a base offset is wrong, which the CRC does
        # not cover.
        gaps_before = recovery_point or MAX_INT64
        if recovery_point and log_end_offset != recovery_point:
            log_end_offset = -1
        # The marker of an orderly stop does not fit the file, so it is not believed.
        if log_end_offset < 0:
            _logger.warning("%s does not end as an orderly stop left it; checking it", segments[-1].path)
    recovered_from = log_end_offset
    if log_end_offset < 0:
        recovered_from = segments[sealed_count].base_offset if sealed_count < len(segments) else 0
        log_end_offset, is_damaged = _recover(segments, sealed_count, epochs, gaps_before)
    if log_end_offset < log_start_offset:
        # What lay from the log start on is lost. Offsets are never given twice, so the log continues from there.
        _discard(segments, 0, f"the log ends at {log_end_offset} and starts at {log_start_offset}")
        log_end_offset = log_start_offset
    if not segments:
        segments.append(Segment(directory, log_end_offset, disk, config, now_ms))
    segments[-1].activate()
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    # The epochs of an emptied log begin at its end, so this has to come before they are cut.
    epochs.put_before(_epochs_before(epochs, segments, log_start_offset))
    # Epochs that begin at or after the end belong to batches that were lost. Kept, they would tell an election that
    # this log goes further than it does (I18).
    epochs.cut_to(log_start_offset, log_end_offset)
    recovered_from = min(recovered_from, log_end_offset)
    # Index files above what was recovered are rebuilt from the batches: a power cut may have left zeros in them, which
    # look like transactions that ended before the segment.
    trusted_end = min([recovered_from, *_damaged(segments, names)])
    aborts_before = log_end_offset if any(name.endswith(aborted_index.SUFFIX) for name in names) else 0
    return Recovered(
        segments,
        LogEndOffset(log_end_offset),
        log_start_offset,
        offsets_in(names),
        trusted_end,
        aborts_before,
        # Cleans stay below the recovery point (I35). If it is unknown, any segment may be a cleaned one.
        recovered_from if recovery_point else log_end_offset,
        is_damaged,
    )


def _epochs_before(epochs: LeaderEpochs, segments: list[Segment], log_start_offset: int) -> tuple[EpochStart, ...]:
    """Return the epochs of the batches that lie before all known ones.

    The epochs are stored from the log's start on. A kill may take the start back to what was checkpointed, and then
    batches before the first known epoch are readable again.
    """
    first = next(iter(epochs.entries), None)
    earlier = LeaderEpochs()
    if first is not None and log_start_offset < first.start_offset:
        for segment in segments:
            if segment.base_offset >= first.start_offset:
                break
            for _, header in segment.headers_from(0):
                if header.next_offset > log_start_offset and header.base_offset < first.start_offset:
                    earlier.assign(header.leader_epoch, max(log_start_offset, header.base_offset))
    return earlier.entries


def _damaged(segments: list[Segment], names: Container[str]) -> list[int]:
    """Return the base offsets of segments whose index of aborted transactions ends with half an entry.

    No entry is read. Below the recovery point they are what was fsynced, and above it they are rebuilt in any case. So
    an orderly start costs nothing for a million aborted transactions.
    """
    indexed = [segment for segment in segments if segment.path.with_suffix(aborted_index.SUFFIX).name in names]
    found = [segment for segment in indexed if not segment.aborted.has_whole_entries]
    for segment in found:
        _logger.warning("the index of aborted transactions of %s is damaged; rebuilding it", segment.path)
    return [segment.base_offset for segment in found]


def _settled_names(directory: PurePath) -> dict[str, None]:
    """Return the names of the files, without what a crash left half done.

    Swaps that were decided are finished. Deletions, temporary files, what a cleaner wrote, and indexes whose segment is
    gone are removed.
    """
    names = dict.fromkeys(files.names_in(directory))
    if any(name.endswith(SWAP) for name in names):
        # Swaps come before everything else: they decide which segments the log has.
        swap.finish_all(directory, names)
        names = dict.fromkeys(files.names_in(directory))
    # Orphans are indexes of segments whose log is gone: a crash came between the deletions of one segment's files.
    left = [name for name in names if name.endswith(_HALF_DONE) or _is_orphan(name, names)]
    for name in left:
        files.remove(directory / name)
        del names[name]
    return names


def _is_orphan(name: str, names: Container[str]) -> bool:
    return name.endswith(BESIDE_LOG) and name.rpartition(".")[0] + LOG_SUFFIX not in names


def _count_below(bases: list[int], recovery_point: RecoveryPoint) -> int:
    """Count the segments that end at or below the recovery point: all before the one that holds it."""
    return max(0, sum(base <= recovery_point for base in bases) - 1)


def _recover(segments: list[Segment], first: int, epochs: LeaderEpochs, gaps_before: int) -> tuple[int, bool]:
    """Check and mend from `segments[first]` on. Return the log end offset, and whether something was damaged. After a
    gap, no batch reaches `gaps_before`.

    The stored epochs stay, and the batches add later ones, which may have begun after the last flush.
    """
    next_offset, is_damaged = 0, False
    for number in range(first, len(segments)):
        segment = segments[number]
        # A segment that does not begin where the one before it ends means that a power cut took the end of that one.
        # The rest must go, even if its bytes are sound: readers would step over a hole of committed records.
        has_gap = number > first and segment.base_offset != next_offset
        # A gap may also be compaction's: if the next batch is too far away for the offsets of one segment, the log had
        # to roll before the gap. Only then is the gap no loss.
        if has_gap and _reach(segment, next_offset) <= MAX_INT32:  # any file may have lost its end
            _discard(segments, number, f"{segment.path.name} is not at {next_offset}, where the one before it ends")
            is_damaged = True
            break
        found_bytes = files.size_bytes(segment.path)
        follows = next_offset if number > first else segment.base_offset
        trusted = _Trusted(segment, follows, found_bytes, epochs, gaps_before)
        next_offset = segment.refill(iter(trusted))
        if segment.size_bytes < found_bytes:
            is_damaged = trusted.is_damaged or number + 1 < len(segments)
            _logger.warning("truncating %s from %d to %d bytes", segment.path, found_bytes, segment.size_bytes)
            _discard(segments, number + 1, f"the log after the truncation at offset {next_offset} may be incomplete")
            break
    return next_offset, is_damaged


def _reach(segment: Segment, offset: int) -> int:
    """Return how far the first batch goes beyond `offset`. If that is too far for a segment that begins there, the
    batch had to go into the next one."""
    first = next(sound_batches(segment.file(), files.size_bytes(segment.path)), None)
    return (first[1].last_offset if first else segment.base_offset) - offset


def _discard(segments: list[Segment], start: int, reason: str) -> None:
    for segment in segments[start:]:
        _logger.warning("removing %s: %s", segment.path, reason)
        segment.discard()
    del segments[start:]


class _Trusted:
    """The sound batches of a segment, up to the first whose offsets don't follow those before it, don't fit into the
    segment, or come after a gap that reaches `gaps_before`.

    The CRC does not cover the base offset, so a batch with a right CRC may still be out of order.
    """

    def __init__(
        self, segment: Segment, end_offset: int, size_bytes: int, epochs: LeaderEpochs, gaps_before: int
    ) -> None:
        """Begin with a segment that follows batches up to `end_offset`."""
        self.is_damaged = False
        """It tells whether what follows the trusted batches is anything else than a torn append, once they are all
        read."""
        self._segment: Final = segment
        self._end_offset: Final = end_offset
        self._size_bytes: Final = size_bytes
        self._epochs: Final = epochs
        self._gaps_before: Final = gaps_before

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        base_offset, epochs = self._segment.base_offset, self._epochs
        next_offset, follows, end = base_offset, self._end_offset, 0
        for position, header in sound_batches(self._segment.file(), self._size_bytes):
            if header.base_offset < next_offset or header.last_offset - base_offset > MAX_INT32:
                break
            # No gap lies behind this offset, because nothing there was cleaned. So the base offset is damaged.
            if header.base_offset > next_offset and header.last_offset >= self._gaps_before:
                break
            # Only later epochs are added. The starts of earlier ones are stored, and compaction may have taken their
            # first batches.
            for entry in shown_by([header], follows, epochs.latest):
                epochs.assign(*entry)
            next_offset = follows = header.next_offset
            end = position + header.size_bytes
            yield position, header
        self.is_damaged = not is_torn(self._segment.file(), end, self._size_bytes)
