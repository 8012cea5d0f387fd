"""The replicas' logs on disk, held against each other batch by batch, once their brokers have stopped in order.

kafka-python reads the files, CRC by CRC, and not the product's own scanner: a bug of that one would hide from itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka.record.default_records import DefaultRecordBatch

_DIRECTORY: Final = re.compile(r"([0-9a-f]{32})-(\d+)")
_PREFIX: Final = struct.Struct(">qi")
"""Where a batch begins: its first offset, and how many bytes come after this."""
_EXAMPLES: Final = 10


class StoredBatch(NamedTuple):
    """What must be equal on every replica: followers write a leader's bytes unchanged (rule 1)."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int


@dataclass(slots=True)
class AuditResult:
    partitions: int = 0
    batches: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether there was something to compare, and all of it was the same."""
        return self.partitions > 0 and self.batches > 0 and not self.differences

    def differ(self, what: str) -> None:
        if len(self.differences) < _EXAMPLES:
            self.differences.append(what)


def compare_replicas(data_dirs: Sequence[Path], *, factor: int, besides: Collection[str] = ()) -> AuditResult:
    """Compare every partition that any of these data directories holds; each must be in `factor` of them, and equal.

    Also in length: they were in sync, and nothing was written for a while, before they were stopped. `besides` are the
    ids of topics, as directories have them, that are left out: brokers clean compacted ones each by itself.
    """
    result = AuditResult()
    holders: dict[str, list[Path]] = {}
    for data_dir in data_dirs:
        for directory in data_dir.iterdir():
            found = _DIRECTORY.fullmatch(directory.name)
            if directory.is_dir() and found and found[1] not in besides:
                holders.setdefault(directory.name, []).append(directory)
    for name, directories in sorted(holders.items()):
        result.partitions += 1
        if len(directories) != factor:
            result.differ(f"{name} is on {len(directories)} brokers, not on {factor}")
        _compare(name, directories, result)
    return result


def _compare(name: str, directories: Sequence[Path], result: AuditResult) -> None:
    logs = [stored_batches(directory) for directory in directories]
    while True:
        try:
            batches = [next(log, None) for log in logs]
        except ValueError as error:
            result.differ(f"{name}: {error}")
            return
        if all(batch is None for batch in batches):
            return
        result.batches += 1
        if len(set(batches)) > 1:
            said = "; ".join(f"{d.parent.name}: {b or 'ends'}" for d, b in zip(directories, batches, strict=True))
            result.differ(f"{name}: {said}")
            return


def stored_batches(directory: Path) -> Iterator[StoredBatch]:
    """Every batch of one replica in order. Raises ValueError where a byte is wrong or an offset comes too early."""
    next_offset = 0
    for path in sorted(directory.glob("*.log")):
        for batch in kafka_batches(path):
            if batch.base_offset < next_offset:
                raise ValueError(f"{path} has offset {batch.base_offset} behind {next_offset - 1}")
            next_offset = batch.next_offset
            yield StoredBatch(batch.base_offset, next_offset, batch.leader_epoch, batch.crc, batch.size_in_bytes)


def kafka_batches(path: Path) -> Iterator[Any]:
    """What kafka-python takes for sound batches, one behind the other to the end of the file. Raises ValueError where
    there is anything else."""
    at, size_bytes = 0, path.stat().st_size
    with path.open("rb") as file:
        while at < size_bytes:
            head = file.read(_PREFIX.size)
            body = file.read(_PREFIX.unpack(head)[1]) if len(head) == _PREFIX.size else b""
            try:
                batch = DefaultRecordBatch(head + body)
                sound = batch.magic == 2 and batch.size_in_bytes == len(head + body) and batch.validate_crc()
            except struct.error:
                sound = False
            if not sound:
                raise ValueError(f"{path} has no sound batch at byte {at} of {size_bytes}")
            yield batch
            at += batch.size_in_bytes
