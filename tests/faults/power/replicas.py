"""What one replica has on its disk after a stop in order: batches, committed records, epochs and checkpoints.

kafka-python reads the batches, and not the product's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.faults.audit import StoredBatch, kafka_batches
from tests.faults.compacted.records import NAME
from tests.faults.compacted.transaction_ends import TransactionEnds
from tests.faults.history import Name, parse_key

from ottla_broker.storage import producer_snapshot

EPOCHS: Final = "leader-epoch-checkpoint"
STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"


class StoredRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    name: Name | None
    """None where no header has a name, as in the coordinators' topics."""


@dataclass(slots=True)
class StoredReplica:
    directory: Path
    start_offset: int = 0
    high_watermark: int = 0
    batches: list[StoredBatch] = field(default_factory=list)
    records: dict[int, StoredRecord] = field(default_factory=dict)
    """The records from the log's start on, by offset, without those of aborted transactions."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch with the offset at which it begins."""
    ended: int = 0
    """How many ended transactions the newest snapshot of the producers keeps."""
    wrong: list[str] = field(default_factory=list)
    """What is damaged, in words; nothing is read after a wrong byte."""
    unmarked: list[str] = field(default_factory=list)
    """In words, batches of transactions that did not end as their marker says."""

    @property
    def broker(self) -> str:
        return self.directory.parent.name

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch at `offset` by the checkpoint, -1 before the first one."""
        return max((epoch for epoch, start in self.epochs if start <= offset), default=-1)

    def newest(self, start: int, end: int) -> dict[bytes | None, tuple[int, StoredRecord]]:
        """Return the newest record of each key between those offsets."""
        return {record.key: (at, record) for at, record in sorted(self.records.items()) if start <= at < end}


def read_replica(directory: Path) -> StoredReplica:
    replica = StoredReplica(directory)
    replica.start_offset = _checkpointed(directory, STARTS)
    replica.high_watermark = _checkpointed(directory, HIGH_WATERMARKS)
    replica.epochs = [(int(epoch), int(start)) for epoch, start in _fields(directory / EPOCHS)]
    replica.ended = ended_in(directory)
    next_offset = 0
    try:
        ends = TransactionEnds(directory)
        for path in sorted(directory.glob("*.log")):
            for batch in kafka_batches(path):
                if batch.base_offset < next_offset:
                    replica.wrong.append(f"{path} has offset {batch.base_offset} behind {next_offset - 1}")
                next_offset = batch.next_offset
                replica.batches.append(
                    StoredBatch(batch.base_offset, next_offset, batch.leader_epoch, batch.crc, batch.size_in_bytes)
                )
                if batch.is_control_batch:
                    ends.on_control(batch)
                elif not ends.is_void(batch):
                    replica.records |= {at: record for at, record in _records_of(batch) if at >= replica.start_offset}
        replica.unmarked = ends.differences()
    except ValueError as error:
        replica.wrong.append(str(error))
    if replica.batches:
        replica.start_offset = max(replica.start_offset, replica.batches[0].base_offset)
    return replica


def _records_of(batch: Any) -> Iterator[tuple[int, StoredRecord]]:
    for record in batch:
        name = parse_key(dict(record.headers).get(NAME) or b"")
        yield record.offset, StoredRecord(record.key, record.value, name)


def ended_in(directory: Path) -> int:
    """Return how many ended transactions the newest producer snapshot keeps; the broker may be running."""
    for snapshot in sorted(directory.glob(f"*{producer_snapshot.SUFFIX}"), reverse=True):
        with suppress(FileNotFoundError, ValueError):
            return len(producer_snapshot.decode(snapshot.read_bytes()).ended)
    return 0


def _checkpointed(directory: Path, file: str) -> int:
    topic, _, partition = directory.name.partition("-")
    found = [line[2] for line in _fields(directory.parent / file) if line[:2] == [topic, partition]]
    return int(found[0]) if found else 0


def _fields(path: Path) -> Sequence[list[str]]:
    if not path.exists():
        return []
    _, _, *lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines]
