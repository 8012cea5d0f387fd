"""The third opinion: the brokers' segment files, decoded by a library that has nothing to do with ottla."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from examples.demo.flights import Flight
from kafka.record import MemoryRecords


def flights_on_disk(data_directories: list[Path], topic_id: str) -> Iterator[Flight]:
    """Every record of every segment of the topic's partitions there."""
    for directory in data_directories:
        for segment in sorted(directory.glob(f"{topic_id}-*/*.log")):
            yield from _flights_in(segment)


def _flights_in(segment: Path) -> Iterator[Flight]:
    records = MemoryRecords(segment.read_bytes())
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError(f"{segment.name}: a batch has a bad CRC")
        for record in batch:
            number = int(dict(record.headers)["row"])
            yield Flight(number, record.key.decode(), record.timestamp, record.value)
