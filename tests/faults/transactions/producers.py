"""Transactional producers of three clients, behind the same calls.

Each call raises `ProducerError`: what it comes to, whoever the client is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import ottla
from ottla.client.offsets import GroupMetadata

TIMEOUT_S: Final = 6.0
"""The timeout of a transaction, and therefore of its records."""
LIMIT_S: Final = 15.0
"""The time limit of a call."""
SOURCE: Final = "source"
"""The topic that all are reading from, in their transactions' offsets: its partition 0."""

_FENCED: Final = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, 90)  # the last is PRODUCER_FENCED


class ProducerError(Exception):
    """`fenced`: another producer has the id, or the transaction took too long."""

    def __init__(self, message: str, *, fenced: bool) -> None:
        super().__init__(message)
        self.fenced: Final = fenced


class TransactionalProducer(Protocol):
    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: bytes) -> None: ...
    def send_offset(self, group: str, offset: int) -> None:
        """How far `SOURCE` has been read."""
        ...

    def flush(self) -> None:
        """Return once all is sent, so that an abort has something to abort."""
        ...

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def leave(self) -> None:
        """As it is, with its transaction open; its id goes to another one."""
        ...


class SdkProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer: Final = ottla.Producer[None, bytes](
            bootstrap,
            transactional_id=transactional_id,
            transaction_timeout=TIMEOUT_S,
            delivery_timeout=TIMEOUT_S,
            request_timeout=TIMEOUT_S / 2,
            max_block=LIMIT_S,
            value="bytes",
        )

    def init(self) -> None:
        with _sdk_errors():
            self._producer.init_transactions()

    def begin(self) -> None:
        with _sdk_errors():
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with _sdk_errors():
            self._producer.send(value, topic=topic, partition=partition)

    def send_offset(self, group: str, offset: int) -> None:
        with _sdk_errors():
            self._producer.send_offsets_to_transaction({(SOURCE, 0): offset}, GroupMetadata(group, -1, "", None))

    def flush(self) -> None:
        with _sdk_errors():
            self._producer.flush(LIMIT_S)

    def commit(self) -> None:
        with _sdk_errors():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _sdk_errors():
            self._producer.abort_transaction()

    def leave(self) -> None:
        with _sdk_errors():
            self._producer.close(0.0)


@contextmanager
def _sdk_errors() -> Iterator[None]:
    try:
        yield
    except ottla.OttlaError as error:
        raise ProducerError(f"{type(error).__name__}: {error}", fenced=isinstance(error, ottla.FencedError)) from error


class LibrdkafkaProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        shared = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500}
        settings = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(TIMEOUT_S * 1000),
            "message.timeout.ms": int(TIMEOUT_S * 1000),
            "socket.timeout.ms": int(TIMEOUT_S * 500),
            "retry.backoff.ms": 20,
            "linger.ms": 2,
        }
        self._producer: Final = confluent_kafka.Producer(shared | settings)
        self._settings: Final = shared
        self._consumer: confluent_kafka.Consumer | None = None  # gives the group's metadata

    def init(self) -> None:
        self._call(self._producer.init_transactions, LIMIT_S)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._call(lambda: self._producer.produce(topic, value, partition=partition))

    def send_offset(self, group: str, offset: int) -> None:
        if self._consumer is None:
            self._consumer = confluent_kafka.Consumer(self._settings | {"group.id": group})
        metadata = self._consumer.consumer_group_metadata()
        self._call(self._producer.send_offsets_to_transaction, [TopicPartition(SOURCE, 0, offset)], metadata, LIMIT_S)

    def flush(self) -> None:
        self._producer.flush(LIMIT_S)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, LIMIT_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, LIMIT_S)

    def leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    @staticmethod
    def _call(call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except (KafkaException, BufferError) as error:
            code = error.args[0].code() if isinstance(error, KafkaException) else None
            raise ProducerError(str(error), fenced=code in _FENCED) from error
