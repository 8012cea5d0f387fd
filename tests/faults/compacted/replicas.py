"""A replica of a compacted partition as it lies on disk, read by kafka-python and not by the product's own code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.faults.audit import kafka_batches
from tests.faults.compacted.records import NAME, key_of, value_of
from tests.faults.compacted.transaction_ends import CONTROL_KEY, TransactionEnds
from tests.faults.history import Name, parse_key

_FENCE_TYPE: Final = 0x6F74


class Span(NamedTuple):
    """A batch's offsets, both included, and its producer, -1 for none."""

    first: int
    last: int
    producer_id: int


@dataclass(slots=True)
class Replica:
    records: dict[int, Name] = field(default_factory=dict)
    """By offset, but for those of aborted transactions."""
    batches: list[Span] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """In words, what no writer has written; nothing is read behind a byte that is wrong."""
    unmarked: list[str] = field(default_factory=list)
    """In words, batches of transactions whose end is not what their marker makes it."""


def read_replica(directory: Path) -> Replica:
    replica, next_offset = Replica(), 0
    try:
        ends = TransactionEnds(directory)
        for path in sorted(directory.glob("*.log")):
            for batch in kafka_batches(path):
                if batch.base_offset < next_offset:
                    replica.wrong.append(f"{path} has offset {batch.base_offset} behind {next_offset - 1}")
                next_offset = batch.next_offset
                replica.batches.append(Span(batch.base_offset, next_offset - 1, batch.producer_id))
                if batch.is_control_batch:
                    ends.on_control(batch)
                elif not ends.is_void(batch):
                    _take(replica, batch, path)
        replica.unmarked = ends.differences()
    except ValueError as error:
        replica.wrong.append(str(error))
    return replica


def fences_in(directory: Path) -> list[int]:
    """Their offsets. Raises ValueError and OSError."""
    logs = sorted(directory.glob("*.log"))
    return [at for path in logs for batch in kafka_batches(path) if batch.is_control_batch for at in _fences(batch)]


def _fences(batch: Any) -> Iterator[int]:
    for record in batch:
        if record.key is not None and CONTROL_KEY.unpack_from(record.key)[1] == _FENCE_TYPE:
            yield record.offset


def _take(replica: Replica, batch: Any, path: Path) -> None:
    for record in batch:
        name = parse_key(dict(record.headers).get(NAME) or b"")
        if name is None or (record.key, record.value) != (key_of(name), value_of(name)):
            replica.wrong.append(f"{path}@{record.offset}: key {record.key!r:.60}, value {record.value!r:.60}")
        else:
            replica.records[record.offset] = name
