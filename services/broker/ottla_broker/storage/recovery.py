"""Opening a log's files after the process that wrote them is gone (rule 58).

After an orderly stop the indexes are trusted and only the last few kilobytes are walked. Otherwise every segment from
the one that holds the recovery point on is read whole: each batch's CRC, offsets that only grow. The first bad byte
ends the log: the segment is truncated there, later segments go, indexes are built anew. Doing it twice changes nothing,
so a crash in the middle of it is a crash like any other.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_broker.machines.epochs import EpochStart, LeaderEpochs
from ottla_broker.machines.offsets import LogEndOffset, RecoveryPoint
from ottla_broker.storage import swap
from ottla_broker.storage.disk import DELETED_SUFFIX, TEMPORARY_SUFFIX, Disk
from ottla_broker.storage.log_config import MAX_INT32, LogConfig
from ottla_broker.storage.producer_snapshot import offsets_in
from ottla_broker.storage.scan import sound_batches
from ottla_broker.storage.segment import Segment
from ottla_broker.storage.swap import BESIDE_LOG, CLEANED, LOG_SUFFIX, SWAP
from ottla_broker.storage.transactions import aborted_index
from ottla_core.records.batch import BatchHeader

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
    """The offsets of the producers' snapshots, the newest last."""
    trusted_end: int
    """Below it the files of aborted transactions are trusted."""
    aborts_before: int
    """None of those ends at or after it."""
    cleaned_before: int
    """No clean has taken anything at or after it, because cleans stay below the recovery point. Where that point is
    not known, any segment may be a cleaned one."""


def open_segments(
    directory: Path,
    disk: Disk,
    config: LogConfig,
    epochs: LeaderEpochs,
    *,
    clean: bool,
    recovery_point: RecoveryPoint,
    log_start_offset: int,
    now_ms: int,
) -> Recovered:
    """Return the segments of `directory`, mended. `epochs` are those on disk.

    They are cut to what the log still has. The batches only add later epochs, because compaction may have taken the
    first batches of an epoch that is known.
    """
    names = _settled_names(directory)
    bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if SEGMENT_NAME.fullmatch(name))
    segments = [Segment(directory, base, disk, config, now_ms) for base in bases]
    sealed_count = max(0, len(segments) - 1) if clean else _count_below(bases, recovery_point)
    for segment in segments[:sealed_count]:
        segment.load_when_used()
    log_end_offset = -1
    if clean and segments:
        log_end_offset = segments[-1].load()
        if log_end_offset < 0:
            _logger.warning("%s does not end with a complete batch; checking it", segments[-1].path)
    recovered_from = log_end_offset
    if log_end_offset < 0:
        recovered_from = segments[sealed_count].base_offset if sealed_count < len(segments) else 0
        log_end_offset = _recover(segments, sealed_count, epochs)
    if log_end_offset < log_start_offset:
        # What lay from the log start on is lost. Offsets are never given twice, so the log continues from there.
        _discard(segments, 0, f"the log ends at {log_end_offset} and starts at {log_start_offset}")
        log_end_offset = log_start_offset
    if not segments:
        segments.append(Segment(directory, log_end_offset, disk, config, now_ms))
    segments[-1].activate()
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.cut_to(log_start_offset, log_end_offset)
    epochs.put_before(_epochs_before(epochs, segments, log_start_offset))
    recovered_from = min(recovered_from, log_end_offset)
    trusted_end = min([recovered_from, *_damaged(segments, names)])
    aborts_before = log_end_offset if any(name.endswith(aborted_index.SUFFIX) for name in names) else 0
    return Recovered(
        segments,
        LogEndOffset(log_end_offset),
        log_start_offset,
        offsets_in(names),
        trusted_end,
        aborts_before,
        recovered_from if recovery_point else log_end_offset,
    )


def _epochs_before(epochs: LeaderEpochs, segments: list[Segment], log_start_offset: int) -> tuple[EpochStart, ...]:
    """Return the epochs of the batches that lie before all known ones.

    The epochs are stored from the start of the log on, and a kill may take the start back to what was checkpointed.
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


def _damaged(segments: list[Segment], names: set[str]) -> list[int]:
    """Return the base offsets of segments whose aborted transactions end with half an entry.

    No entry is read: below the recovery point they are what was fsynced, and above it they are rebuilt in any case."""
    indexed = [segment for segment in segments if segment.path.with_suffix(aborted_index.SUFFIX).name in names]
    found = [segment for segment in indexed if not segment.aborted.has_whole_entries]
    for segment in found:
        _logger.warning("the index of aborted transactions of %s is damaged; rebuilding it", segment.path)
    return [segment.base_offset for segment in found]


def _settled_names(directory: Path) -> set[str]:
    """The files, without what a crash left half done: swaps are finished; deletions, temporary files, what a cleaner
    wrote, indexes whose segment is gone are removed."""
    names = set(os.listdir(directory))
    if any(name.endswith(SWAP) for name in names):
        swap.finish_all(directory, names)
        names = set(os.listdir(directory))
    left = {name for name in names if name.endswith(_HALF_DONE) or _is_orphan(name, names)}
    for name in left:
        (directory / name).unlink()
    return names - left


def _is_orphan(name: str, names: set[str]) -> bool:
    return name.endswith(BESIDE_LOG) and name.rpartition(".")[0] + LOG_SUFFIX not in names


def _count_below(bases: list[int], recovery_point: RecoveryPoint) -> int:
    """How many segments end at or below the recovery point: all before the one that holds it."""
    return max(0, sum(base <= recovery_point for base in bases) - 1)


def _recover(segments: list[Segment], first: int, epochs: LeaderEpochs) -> int:
    """Check and mend from `segments[first]` on; return the log end offset. The stored epochs stay, and the batches add
    later ones, which may have begun after the last flush."""
    next_offset = 0
    for number in range(first, len(segments)):
        segment = segments[number]
        has_gap = number > first and segment.base_offset != next_offset
        if has_gap and _reach(segment, next_offset) <= MAX_INT32:  # any file may have lost its end
            _discard(segments, number, f"{segment.path.name} is not at {next_offset}, where the one before it ends")
            break
        found_bytes = segment.path.stat().st_size
        next_offset = segment.refill(_trusted(segment, found_bytes, epochs))
        if segment.size_bytes < found_bytes:
            _logger.warning("truncating %s from %d to %d bytes", segment.path, found_bytes, segment.size_bytes)
            _discard(segments, number + 1, f"the log after the truncation at offset {next_offset} may be incomplete")
            break
    return next_offset


def _reach(segment: Segment, offset: int) -> int:
    """How far the first batch goes beyond `offset`: what a segment that begins there can't hold is in the next one."""
    first = next(sound_batches(segment.file(), segment.path.stat().st_size), None)
    return (first[1].last_offset if first else segment.base_offset) - offset


def _discard(segments: list[Segment], start: int, reason: str) -> None:
    for segment in segments[start:]:
        _logger.warning("removing %s: %s", segment.path, reason)
        segment.discard()
    del segments[start:]


def _trusted(segment: Segment, size_bytes: int, epochs: LeaderEpochs) -> Iterator[tuple[int, BatchHeader]]:
    """The sound batches up to the first whose offsets don't follow those before it or don't fit into the segment."""
    next_offset = segment.base_offset
    for position, header in sound_batches(segment.file(), size_bytes):
        if header.base_offset < next_offset or header.last_offset - segment.base_offset > MAX_INT32:
            return
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
        next_offset = header.next_offset
        yield position, header
