"""Records as a partition holds them, whichever broker serves it."""

from __future__ import annotations

from typing import Any, NamedTuple

import confluent_kafka
from peers.security import librdkafka
from waiting import LIMIT_S


class Row(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]


def row(message: confluent_kafka.Message) -> Row:
    offset, (_, timestamp_ms) = message.offset(), message.timestamp()
    assert offset is not None
    return Row(offset, timestamp_ms, message.key(), message.value(), tuple(message.headers() or ()))


def rows_in(bootstrap: str, topic: str, partition: int = 0) -> list[Row]:
    """All that a client reads from the beginning of a partition to its end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            **librdkafka(),
            "group.id": "rows",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
    rows = []
    while True:
        message = consumer.poll(LIMIT_S)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            break
        rows.append(row(message))
    consumer.close()
    return rows
