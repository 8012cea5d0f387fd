"""The replicas' logs on disk, held against each other batch by batch, once their brokers have stopped in order.

The product's own scanner reads the files, CRC by CRC; what the batches are compared by is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from ottla_broker.storage.disk import DataFile
from ottla_broker.storage.scan import sound_batches

_DIRECTORY: Final = re.compile(r"([0-9a-f]{32})-(\d+)")
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


def compare_replicas(data_dirs: Sequence[Path], *, factor: int) -> AuditResult:
    """Compare every partition that any of these data directories holds; each must be in `factor` of them, and equal.

    Also in length: they were in sync, and nothing was written for a while, before they were stopped.
    """
    result = AuditResult()
    holders: dict[str, list[Path]] = {}
    for data_dir in data_dirs:
        for directory in data_dir.iterdir():
            if directory.is_dir() and _DIRECTORY.fullmatch(directory.name):
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
        file, at = DataFile(path), 0
        for position, header in sound_batches(file, file.size_bytes()):
            if header.base_offset < next_offset:
                raise ValueError(f"{path} has offset {header.base_offset} behind {next_offset - 1}")
            at, next_offset = position + header.size_bytes, header.next_offset
            yield StoredBatch(header.base_offset, next_offset, header.leader_epoch, header.crc, header.size_bytes)
        if at != file.size_bytes():
            raise ValueError(f"{path} has no sound batch at byte {at} of {file.size_bytes()}")
