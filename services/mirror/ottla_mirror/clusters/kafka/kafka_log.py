"""Reads one of a mirror's own topics in another Kafka, from its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from ottla_mirror.clusters.cluster import LogRecord
from ottla_mirror.clusters.kafka.kafka_errors import as_ottla, kafka_errors

_MOST: Final = 1000

READS: Final = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # so that it is known where the last marker ends
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 16 * 1024,
}


def take(consumer: Consumer, timeout: float, most: int) -> list[Message]:
    """Return the first message within `timeout` seconds, and those that have come with it. `consume` alone would wait
    for `most` of them."""
    with kafka_errors():
        messages = consumer.consume(1, timeout)
        return messages + consumer.consume(most, 0) if messages else []


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers as they were written."""
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])


class KafkaLog:
    """The `Log` of another Kafka."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        with kafka_errors():
            self._consumer: Final = Consumer(
                {**settings, **READS, "group.id": settings["client.id"], "auto.offset.reset": "earliest"}
            )
            self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self.position = 0
        self.close: Final = self._consumer.close

    def poll(self, timeout: float) -> Iterable[LogRecord]:
        messages = take(self._consumer, timeout, _MOST)
        records = []
        for message in messages:
            error, offset = message.error(), message.offset() or 0
            if error is None:
                self.position = offset + 1
                records.append(LogRecord(message.key() or b"", message.value() or b"", headers_of(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.position = max(self.position, offset)
            elif error.fatal() or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise as_ottla(error)
        return records
