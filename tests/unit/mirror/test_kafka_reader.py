"""What a reader of another Kafka hands on where its log is not what it was, with a consumer that is scripted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ottla
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_mirror.clusters.kafka import kafka_reader
from ottla_mirror.clusters.kafka.kafka_reader import KafkaReader

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(b"i" * 16)


def record(partition: TopicPartition, offset: int, epoch: int = 3) -> Any:
    return message(partition, offset, None, epoch)


def message(partition: TopicPartition, offset: int, error: int | None, epoch: int = 3) -> Any:
    values: dict[str, Any] = {
        "topic": partition.topic, "partition": partition.partition, "offset": offset, "key": b"k", "value": b"v",
        "error": None if error is None else KafkaError(error), "timestamp": (1, 5), "headers": None,
        "leader_epoch": epoch,
    }  # fmt: skip
    return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


class Scripted:
    """A consumer: it gives what is in `left`, and notes what it is to read."""

    def __init__(self, settings: object) -> None:
        self.left: list[list[Any]] = []
        self.assigned: list[tuple[int, int, int | None]] = []

    def consume(self, most: int, timeout: float) -> list[Any]:
        return self.left.pop(0) if self.left and most > 1 else [self.left[0].pop(0)] if self.left else []

    def incremental_assign(self, partitions: Any) -> None:
        self.assigned += [(p.partition, p.offset, p.leader_epoch) for p in partitions]

    def incremental_unassign(self, partitions: Any) -> None: ...
    def get_watermark_offsets(self, partition: Any, *, cached: bool) -> tuple[int, int]:
        return 0, 50


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> KafkaReader:
    ids: Any = lambda settings: SimpleNamespace(expected=lambda name, topic_id: ID, of=lambda names: {})  # noqa: E731
    monkeypatch.setattr(kafka_reader, "Consumer", Scripted)
    monkeypatch.setattr(kafka_reader, "TopicIds", ids)
    return KafkaReader({"client.id": "tests"})


def script(reader: KafkaReader) -> Any:
    return reader._consumer


def test_what_came_before_a_reset_does_not_move_the_position_that_was_reset(reader: KafkaReader) -> None:
    reader.assign(P, 1000, leader_epoch=2, topic_id=ID)
    reader.assign(Q, 5, topic_id=ID)
    reset = message(P, 1002, KafkaError._AUTO_OFFSET_RESET)
    script(reader).left = [[record(P, 1000), record(P, 1001), record(Q, 5), reset], [record(P, 0), record(P, 1)]]
    first, second = reader.poll(0), reader.poll(0)
    assert first is not None
    assert second is not None
    assert (first.partition, first.offset, first.next_offset) == (Q, 5, 6)
    assert (second.partition, second.offset, second.next_offset) == (P, 0, 2)
    assert script(reader).assigned == [(0, 1000, 2), (1, 5, None), (0, -2, None)]


def test_the_end_of_a_partition_moves_its_position_and_keeps_the_epoch(reader: KafkaReader) -> None:
    reader.assign(P, 7, leader_epoch=2, topic_id=ID)
    script(reader).left = [[message(P, 9, KafkaError._PARTITION_EOF)], [record(P, 9), record(P, 12)]]
    at_end, block = reader.poll(0), reader.poll(0)
    assert at_end is not None
    assert block is not None
    assert (at_end.records, at_end.next_offset, at_end.leader_epoch) == (b"", 9, 2)
    headers = [header for _, header in iter_headers(memoryview(block.records))]
    assert [(h.base_offset, h.record_count, h.leader_epoch) for h in headers] == [(9, 1, 3), (12, 1, 3)]
    assert (block.offset, block.next_offset, block.leader_epoch) == (9, 13, 3)


def test_a_partition_whose_topic_can_t_be_looked_up_is_read_on_as_it_was(
    reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.assign(P, 7, topic_id=ID)

    def away(name: str, topic_id: object) -> TopicId:
        raise ottla.TimeoutError(7, "away")

    monkeypatch.setattr(reader._ids, "expected", away)
    with pytest.raises(ottla.TimeoutError):
        reader.assign(P, 8, topic_id=ID)
    assert reader.positions()[P].offset == 7
