"""`ottla log verify`: checks whether the files of a log are, to the byte, what a broker has written.

A segment is checked as recovery checks it: every CRC, offsets that only rise, counts, epochs. Its indexes are compared
with the batches on the way. After the first damage nothing is known of the rest of a segment. Beside a running broker,
the last segment is checked as far as it went when it was opened.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.errors import ErrorCode, FatalError
from ottla_broker.machines.epochs import NO_EPOCH, LeaderEpochs
from ottla_broker.storage import checkpoint, producer_snapshot
from ottla_broker.storage.disk import DELETED_SUFFIX, TEMPORARY_SUFFIX
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla_broker.storage.log_dir import PARTITION_METADATA
from ottla_broker.storage.scan import sound_batches
from ottla_broker.storage.swap import CLEANED, INDEX_SUFFIXES, LOG_SUFFIX, SWAP
from ottla_core.errors import OttlaError
from ottla_core.kafka_formats import kafka_uuid
from ottla_core.records.batch import DELETE_HORIZON, BatchHeader
from ottla_core.records.leader_epochs import EpochStart
from ottla_core.records.reader import read_records
from ottla_stack.log_tools.damage import Damage, IndexCheck, bytes_problem, header_problem
from ottla_stack.log_tools.log_files import PARTITION_NAME, LogFiles, read_metadata, reading

_OF_A_LOG: Final = (LOG_SUFFIX, *INDEX_SUFFIXES, producer_snapshot.SUFFIX, ".txnindex")
_LEFTOVERS: Final = (DELETED_SUFFIX, TEMPORARY_SUFFIX, CLEANED, SWAP)
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}")
_KAFKAS_SNAPSHOT: Final = b"\0\1"
"""A snapshot of Kafka's begins with this version."""
_NAMES: Final = (PARTITION_METADATA, checkpoint.LEADER_EPOCHS)
_AN_APPEND_S: Final = 0.1
"""After this time a broker has written the rest of what it has begun to append."""

_COPY: Final = "have the broker copy the replica from its leader again (docs/operate/log-tools.md)"
_REMOVE: Final = "stop the broker, remove the file, and start the broker, which rebuilds the file"


@dataclass(slots=True)
class SegmentReport:
    """What is in a segment up to the first damage, and the damage."""

    path: Path
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    next_offset: int = 0
    leader_epoch: int = NO_EPOCH
    gaps: int = 0
    """It counts how often offsets are missing between batches, as after compaction."""
    is_cleaned: bool = False
    """It tells whether compaction has left traces in the segment."""
    damages: list[Damage] = field(default_factory=list)

    @property
    def base_offset(self) -> int:
        return int(self.path.stem)

    @property
    def is_whole(self) -> bool:
        """It tells whether the segment's batches are known up to its end. An index may be damaged all the same."""
        return all(damage.path != self.path for damage in self.damages)


class LogVerifier:
    """Checks one log. `deep` reads the records inside the batches, too, and `is_compacted` allows gaps between
    segments."""

    def __init__(self, log: LogFiles, *, deep: bool = False, is_compacted: bool = False) -> None:
        self._log: Final = log
        self._deep: Final = deep
        self._is_compacted = is_compacted
        self._leader_epoch = NO_EPOCH
        self.epochs = LeaderEpochs()
        """These are the epochs of the checkpoint. There are none if it is missing or torn."""
        with suppress(ValueError):  # `other_files` reports it
            self.epochs = LeaderEpochs(_read_epochs(log.directory / checkpoint.LEADER_EPOCHS))

    def segments(self) -> Iterator[SegmentReport]:
        """Yield one report after the other. Segments that retention has just deleted are left out."""
        end: int | None = None
        for path in self._log.segments:
            try:
                with reading(path):
                    report = self._segment(path)
            except FileNotFoundError:
                if path.exists() or not self._log.is_whole:
                    raise
                end = None
                continue
            self._is_compacted |= report.is_cleaned
            before, end = end, report.next_offset if report.is_whole else None
            if before is not None and not self._may_follow(report.base_offset, before):
                problem = f"it begins at offset {report.base_offset}, but the segment before it ends at {before}"
                report.damages.insert(
                    0, Damage(path, 0, before, problem, f"restore the file that is missing, or {_COPY}")
                )
            yield report

    def sound_segments(self, consequence: str, *, but_indexes: bool = False) -> Iterator[SegmentReport]:
        """Yield the reports of `segments`. Raises FatalError at the first damage. With `but_indexes`, damage of an
        index does not count. `consequence` is what the damage means for the caller's work."""
        for report in self.segments():
            for damage in report.damages:
                if but_indexes and damage.path != report.path:
                    continue
                raise FatalError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{damage.path} is damaged at position {damage.position}: {damage.problem}",
                    hint=f"{consequence}; {damage.remedy}",
                )
            yield report

    def _may_follow(self, base_offset: int, end: int) -> bool:
        return base_offset == end or (base_offset > end and self._is_compacted)

    def other_files(self) -> Iterator[Damage]:
        """Yield the damage of all files other than segments and indexes. A broker may remove files during that."""
        directory = self._log.directory
        names = sorted(os.listdir(directory)) if self._log.is_whole else ()
        if self._log.is_whole and not any(name.endswith(LOG_SUFFIX) for name in names):
            yield Damage(directory, 0, -1, "it has no segments", _COPY)
        for name in names:
            path = directory / name
            with suppress(FileNotFoundError):
                problem, remedy = _name_problem(name, names), "move it out of the directory"
                if name == PARTITION_METADATA:
                    problem = _metadata_problem(directory)
                    remedy = "move the directory to where it belongs, or give it its own name again"
                elif read := _READERS.get(name) or _READERS.get(path.suffix):
                    try:
                        read(path)
                    except ValueError as error:
                        problem, remedy = f"it is torn ({error})", _REMOVE
                if problem and path.exists():
                    yield Damage(path, 0, -1, problem, remedy)

    def _segment(self, path: Path) -> SegmentReport:
        """Return the report of a segment. It is read again if compaction has replaced files: an old segment looks
        damaged beside new indexes, or is missing."""
        leader_epoch = self._leader_epoch
        while True:
            before, self._leader_epoch = _identity(path), leader_epoch
            try:
                report = self._read(path)
            except FileNotFoundError:
                if before == _identity(path):
                    raise
            else:
                if not report.damages or before == _identity(path):
                    return report

    def _read(self, path: Path) -> SegmentReport:
        file = DataFile(path)
        report = SegmentReport(path, file.size_bytes(), leader_epoch=self._leader_epoch)
        report.next_offset = report.base_offset
        offsets = IndexCheck(path.with_suffix(INDEX_SUFFIXES[0]), OFFSET_ENTRY)
        times = IndexCheck(path.with_suffix(INDEX_SUFFIXES[1]), TIME_ENTRY)
        end = self._walk(file, report, offsets, times)
        if not report.damages and end < report.size_bytes:
            if path == self._log.segments[-1]:
                time.sleep(_AN_APPEND_S)
            if (now := file.size_bytes()) > end and (problem := bytes_problem(file, end, now)):
                report.damages.append(Damage(path, end, report.next_offset, problem, _COPY))
        if not report.damages:
            report.size_bytes, has_grown = end, file.size_bytes() != end
            for check in (offsets, times):
                check.finish(has_grown=has_grown)
                if check.problem:
                    remedy = f"stop the broker, then: ottla log index {path}"
                    report.damages.append(Damage(check.path, check.position, -1, check.problem, remedy))
            self._leader_epoch = report.leader_epoch
        return report

    def _walk(self, file: DataFile, report: SegmentReport, offsets: IndexCheck, times: IndexCheck) -> int:
        """Return where the sound batches end, or where one begins that does not belong there."""
        base_offset, at, largest = report.base_offset, 0, -1
        for position, header in sound_batches(file, report.size_bytes):
            at = position
            problem = header_problem(header, base_offset, report.next_offset, report.leader_epoch)
            if header.leader_epoch != report.leader_epoch and not problem:
                problem = self._epoch_problem(header)
            if self._deep and not problem:
                problem = _records_problem(file.read(position, header.size_bytes))
            if problem:
                report.damages.append(Damage(report.path, position, report.next_offset, problem, _COPY))
                return position
            _count(report, header)
            if position >= offsets.due:
                offsets.compare(position, header.last_offset - base_offset)
            largest = max(largest, header.max_timestamp)
            if header.last_offset - base_offset >= times.due:
                times.compare(header.last_offset - base_offset, largest if header.max_timestamp == largest else -1)
            at += header.size_bytes
        return at

    def _epoch_problem(self, header: BatchHeader) -> str:
        """Return a problem if the checkpoint has the batch in another epoch. It may not know the latest ones yet."""
        known = self.epochs.epoch_of(header.base_offset)
        if known in (NO_EPOCH, header.leader_epoch) or known == self.epochs.latest < header.leader_epoch:
            return ""
        return f"a batch has the leader epoch {header.leader_epoch} where {checkpoint.LEADER_EPOCHS} has {known}"


def _identity(path: Path) -> list[int]:
    """Return the inodes of those files of a segment that exist."""
    found = []
    for file in (path, *map(path.with_suffix, INDEX_SUFFIXES)):
        with suppress(FileNotFoundError):
            found.append(file.stat().st_ino)
    return found


def _count(report: SegmentReport, header: BatchHeader) -> None:
    report.batches += 1
    report.records += header.record_count
    report.leader_epoch = header.leader_epoch
    is_after_gap = header.base_offset != report.next_offset
    report.gaps += is_after_gap
    if is_after_gap or header.record_count != header.last_offset_delta + 1 or header.attributes & DELETE_HORIZON:
        report.is_cleaned = True
    report.next_offset = header.next_offset


def _records_problem(batch: bytes) -> str:
    try:
        read_records(batch)
    except OttlaError as error:
        return error.message
    return ""


def _name_problem(name: str, names: list[str] | tuple[()]) -> str:
    stem, _, _ = name.rpartition(".")
    if name in _NAMES or name.endswith(_LEFTOVERS):
        return ""
    if not name.endswith(_OF_A_LOG) or len(stem) != 20 or not stem.isdigit():
        return "it is not a file of a log"
    return "it has no segment" if name.endswith(INDEX_SUFFIXES) and stem + LOG_SUFFIX not in names else ""


def _metadata_problem(directory: Path) -> str:
    """Return a problem if partition.metadata is of another directory, because some were swapped, or copied into each
    other."""
    fields, name = read_metadata(directory), PARTITION_NAME.fullmatch(directory.resolve().name)
    if name is None:
        return ""
    if _TOPIC_ID.fullmatch(name["topic"]):
        topic_id = kafka_uuid.spelled(bytes.fromhex(name["topic"]))
        if fields.get("topic_id") != topic_id:
            return f"it is of topic id {fields.get('topic_id')}, but the directory is of {topic_id}"
    if fields.get("partition", name["partition"]) != name["partition"]:
        return f"it is of partition {fields['partition']}, but the directory is of partition {name['partition']}"
    return ""


def _read_epochs(path: Path) -> list[EpochStart]:
    """Read the epochs. Raises ValueError if the checkpoint is torn."""
    return [EpochStart(int(epoch), int(start)) for epoch, start in checkpoint.read_fields(path) or ()]


def _read_snapshot(path: Path) -> None:
    """Check a snapshot. Raises ValueError if it is torn. Kafka's own snapshots are not read."""
    if not (data := path.read_bytes()).startswith(_KAFKAS_SNAPSHOT):
        producer_snapshot.decode(data)


_READERS: Final[Mapping[str, Callable[[Path], object]]] = {
    checkpoint.LEADER_EPOCHS: _read_epochs,
    producer_snapshot.SUFFIX: _read_snapshot,
}
