"""What lies in a partition in the end: its records, and where its batches begin."""

from __future__ import annotations

from typing import Final, NamedTuple

import ottla
from ottla.connect import BatchReader
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import iter_headers

_LIMIT_S: Final = 60.0
_POLL_S: Final = 0.5


class Copied(NamedTuple):
    """A committed record of the copy."""

    offset: int
    key: bytes | None
    value: bytes | None


def records_of(bootstrap: str, topic: str) -> dict[int, list[Copied]]:
    """By partition. Raises OttlaError where they can't be read."""
    found: dict[int, list[Copied]] = {}
    with ottla.Consumer(
        topic, bootstrap=bootstrap, start="earliest", stop="end", key="bytes", value="bytes"
    ) as consumer:
        for record in consumer:
            found.setdefault(record.partition, []).append(Copied(record.offset, record.key, record.value))
    return found


def batches_of(bootstrap: str, topic: str, partitions: int) -> dict[int, list[int]]:
    """The first offset of each batch, by partition, markers among them."""
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    reader = BatchReader(bootstrap)
    try:
        for partition in found:
            reader.assign(ottla.TopicPartition(topic, partition))
        quiet = 0
        while quiet < _LIMIT_S / _POLL_S:
            fetched = reader.poll(_POLL_S)
            if fetched is not None:
                quiet = 0
                found[fetched.partition.partition] += [
                    h.base_offset for _, h in iter_headers(memoryview(fetched.records))
                ]
            elif all(at.offset is not None and at.offset >= at.end >= 0 for at in reader.positions().values()):
                return found
            else:
                quiet += 1
    finally:
        reader.close()
    raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"{topic} was not read to its end")
