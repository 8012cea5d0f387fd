"""Kafka's checkpoint files: a version, a count, then one line of words per entry (rule 61).

A file that is missing or torn reads as None, with a warning: the broker can do without any checkpoint, at the price of
more recovery, and no checkpoint may keep it from starting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final

from ottla_broker.machines.epochs import LeaderEpochs
from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log_config import MAX_INT64
from ottla_core.cluster.history import History, Term
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.leader_epochs import EpochStart

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
METADATA: Final = "metadata-checkpoint"
PURGED: Final = "purge-checkpoint"
INCOMPLETE: Final = "incomplete-log-checkpoint"

_VERSION: Final = "0"
_logger = logging.getLogger(__name__)


def write_history(disk: Disk, path: PurePath, history: History) -> None:
    """Write a line with the number of the last decision and that of restorations, then `uuid first-decision` for each
    term."""
    first = f"seq {history.seq} restored {history.restored}"
    _write(disk, path, [first, *(f"{term.uuid} {term.first_seq}" for term in history.terms)])


def read_history(path: PurePath) -> History:
    """Return what `write_history` wrote, or an empty history if the file is missing, torn, or of an earlier release."""
    try:
        lines = read_fields(path)
        # Earlier releases noted two numbers that say nothing of terms.
        if not lines or len(lines[0]) == 2:
            return History()
        [[_, seq, _, restored], *terms] = lines
        return History(tuple(Term(uuid, int(first_seq)) for uuid, first_seq in terms), int(seq), int(restored))
    except ValueError as error:
        _warn(path, error)
        return History()


def write_offsets(
    disk: Disk, path: PurePath, offsets: Mapping[PartitionId, int], names: Mapping[PartitionId, str]
) -> None:
    """Write one `topic-id partition offset` a line. `names` has the first two words (`name_of`)."""
    _write(disk, path, [f"{names[id_]} {offset}" for id_, offset in offsets.items()])


def name_of(partition: PartitionId) -> str:
    """Return the topic's 32 hex digits, by which its directory is named, and the partition."""
    return f"{partition.topic_id.hex()} {partition.partition}"


def read_offsets(path: PurePath) -> dict[PartitionId, int]:
    """Return what `write_offsets` wrote, or nothing if the file is missing or torn."""
    try:
        return {
            PartitionId(TopicId(bytes.fromhex(topic)), int(partition)): int(offset)
            for topic, partition, offset in read_fields(path) or ()
        }
    except ValueError as error:
        _warn(path, error)
        return {}


def write_epochs(disk: Disk, path: PurePath, entries: Iterable[EpochStart]) -> None:
    """Write one `epoch start-offset` a line."""
    _write(disk, path, (f"{entry.epoch} {entry.start_offset}" for entry in entries))


def read_epochs(path: PurePath) -> list[EpochStart] | None:
    """Return what `write_epochs` wrote, or None if the file is missing or torn: the batches have to be read then."""
    try:
        lines = read_fields(path)
        return None if lines is None else [EpochStart(int(epoch), int(start)) for epoch, start in lines]
    except ValueError as error:
        _warn(path, error)
        return None


def write_purged(disk: Disk, path: PurePath, offset: int) -> None:
    """Write the offset before which tombstones and markers may be gone from a log."""
    _write(disk, path, [str(offset)])


def read_purged(path: PurePath) -> int:
    """Return what `write_purged` wrote. Return 0 without a file: nothing is gone, or a release that kept no such file
    has removed it. If the file is damaged, all of them may be gone."""
    try:
        lines = read_fields(path)
        return int(lines[0][0]) if lines else 0
    except ValueError as error:
        _warn(path, error)
        return MAX_INT64


class EpochsFile:
    """The epochs of one log, which are written unless they are known to be on disk.

    Epochs in which nothing was written are left out: a start forgets them, and an election costs an idle log no write.
    """

    def __init__(self, directory: PurePath, disk: Disk) -> None:
        self._path: Final = directory / LEADER_EPOCHS
        self._disk: Final = disk
        self._written: tuple[EpochStart, ...] | None = None

    def read(self, *, is_durable: bool) -> list[EpochStart] | None:
        """Return what `read_epochs` returns. With `is_durable` a stop has synced the file; a process that was killed
        may not have."""
        entries = read_epochs(self._path)
        self._written = tuple(entries) if is_durable and entries is not None else None
        return entries

    def has(self, epoch: int) -> bool:
        """Return whether the epoch is on disk for certain."""
        return self._written is not None and any(entry.epoch == epoch for entry in self._written)

    def write(self, epochs: LeaderEpochs, log_start_offset: int, log_end_offset: int) -> None:
        entries = epochs.stored(log_start_offset, log_end_offset)
        if entries != self._written:
            write_epochs(self._disk, self._path, entries)
            self._written = entries


def _write(disk: Disk, path: PurePath, lines: Iterable[str]) -> None:
    body = list(lines)
    disk.replace_file(path, "\n".join([_VERSION, str(len(body)), *body, ""]))


def read_fields(path: PurePath) -> list[list[str]] | None:
    """Return the fields of each entry, or None if there is no file.

    Raises ValueError if its first two lines disagree.
    """
    try:
        # A line that was cut does not count, because it may hold only the first digits of a number.
        version, count, *lines, _ = files.read_text(path).split("\n")
    except FileNotFoundError:
        return None
    if version != _VERSION or int(count) != len(lines):
        raise ValueError(
            f"it has version {version!r} and {len(lines)} entries; the entry count in its header is {count}"
        )
    return [line.split() for line in lines]


def _warn(path: PurePath, error: ValueError) -> None:
    _logger.warning("%s is damaged (%s); continuing without it", path, error)
