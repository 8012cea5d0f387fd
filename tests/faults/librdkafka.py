"""librdkafka behind the few calls that the writer and the reader make of the SDK's clients: as it comes, by defaults.

What reaches an application is counted: failed deliveries, errors in place of records, fatal errors. That a connection
was lost is no such thing: librdkafka logs it and goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import confluent_kafka

import ottla
from ottla_core.errors import ErrorCode

_POLL_S: Final = 0.05


class Stored(NamedTuple):
    """What a delivery gives."""

    offset: int


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Producer:
    """Idempotent, with acks=all; everything else is librdkafka's default."""

    def __init__(self, bootstrap: str, topic: str, client_id: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "client.id": client_id, "enable.idempotence": True}
        self._producer: Final[Any] = confluent_kafka.Producer(settings)
        self._topic: Final = topic
        self._closing = threading.Event()
        self._serving: Final = threading.Thread(target=self._serve, name="librdkafka")

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._serving.join()

    def send(self, value: bytes, *, key: bytes, partition: int) -> Future[Stored]:
        delivery: Future[Stored] = Future()

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                delivery.set_result(Stored(-1 if message.offset() is None else message.offset()))
            else:
                delivery.set_exception(_error(error))

        self._producer.produce(self._topic, value, key, partition, on_delivery=on_delivery)
        return delivery

    def flush(self) -> None:
        self._producer.flush()

    def _serve(self) -> None:
        """Callbacks run here."""
        while not self._closing.is_set():
            self._producer.poll(_POLL_S)


class Consumer:
    """Every partition from its first offset on, without a group."""

    finished = False

    def __init__(self, bootstrap: str, topic: str, partitions: int, client_id: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # an offset out of range is to be seen, not smoothed over
        }
        self._consumer: Final[Any] = confluent_kafka.Consumer(settings)
        self._consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()

    def poll(self, timeout_s: float, *, max_records: int) -> Iterable[Record]:
        """Raises OttlaError where the application is handed an error; records beside it come with the next call."""
        messages = self._consumer.consume(max_records, timeout_s)
        for message in messages:
            if message.error() is not None:
                raise _error(message.error())
        return [Record(m.partition(), m.offset(), m.key(), m.value()) for m in messages]


def _error(error: Any) -> ottla.OttlaError:
    return ottla.OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error.name()}: {error.str()}")
