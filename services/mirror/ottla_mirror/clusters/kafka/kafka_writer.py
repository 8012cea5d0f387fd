"""Writes to another Kafka, each batch record by record. It is idempotent, and uses transactions if it has a
transactional id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Literal, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_core.plural import counted
from ottla_core.records.builder import SealedBatch
from ottla_core.records.reader import read_records
from ottla_mirror.clusters.cluster import TRANSACTION_S, Member
from ottla_mirror.clusters.kafka.kafka_errors import as_ottla, kafka_errors
from ottla_mirror.clusters.kafka.kafka_member import KafkaMember, to_commit
from ottla_mirror.machines.encoding import Run

_ROOM_S: Final = 60.0
_STEP_S: Final = 0.1
_COMMIT_S: Final = 30.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_BATCH_BYTES: Final = 64 * 1024
"""The size of one batch, unless a single record is larger. A copy with the source's max.message.bytes accepts it."""


class KafkaSent:
    """Records of one partition on their way. Their order is kept."""

    def __init__(self, poll: Callable[[float], object], failed: Callable[[KafkaError], object], count: int) -> None:
        self._poll: Final = poll
        self._failed: Final = failed
        self._left = count
        self._error: OttlaError | None = None
        self._runs: list[Run] = []
        self._known = True

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Note the delivery of a record. It is called in `poll` for each record."""
        self._left -= 1
        offset = message.offset()
        if error is not None:
            self._error = self._error or as_ottla(error)
            self._failed(error)
        elif offset is None or offset < 0:
            self._known = False
        elif self._runs and self._runs[-1].next == offset:
            self._runs[-1] = Run(self._runs[-1].first, self._runs[-1].length + 1)
        else:
            self._runs.append(Run(offset, 1))

    def done(self) -> bool:
        if self._left:
            self._poll(0)
        return not self._left

    def runs(self) -> Sequence[Run]:
        """Return the runs, or none if one of the offsets is not known, because the records' positions are unknown
        then."""
        if self._error is not None:
            raise self._error
        return self._runs if self._known else ()

    def refusal(self) -> str:
        """Return "", because librdkafka reports no refusal before it gives up."""
        return ""

    def result(self, timeout: float | None = None) -> None:
        deadline_at = monotonic() + (timeout or _COMMIT_S)
        while not self.done():
            if monotonic() > deadline_at:
                raise ottla.TimeoutError(ErrorCode.REQUEST_TIMED_OUT, "the record has not been acknowledged yet")
            self._poll(_STEP_S)
        self.runs()


class KafkaWriter:
    """The `Writer` to another Kafka."""

    def __init__(self, settings: Mapping[str, Any], transactional_id: str | None, delivery_s: float) -> None:
        own: dict[str, Any] = {
            "enable.idempotence": True,
            "compression.type": "lz4",
            "message.max.bytes": _MOST_BYTES,
            "batch.size": _BATCH_BYTES,
            "queue.buffering.max.kbytes": 48 * 1024,
        }
        if transactional_id is None:
            own["delivery.timeout.ms"] = int(delivery_s * 1000)
        else:
            own |= {"transactional.id": transactional_id, "transaction.timeout.ms": int(TRANSACTION_S * 1000)}
        with kafka_errors():
            self._producer: Final = Producer({**own, **settings})
        self._failures: Final[list[OttlaError]] = []
        self._dead: OttlaError | None = None

    def send(
        self, value: bytes | None, *, key: bytes, topic: str, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> KafkaSent:
        sent = KafkaSent(self._producer.poll, self._on_failed, 1)
        self._produce(sent, topic, 0, value=value, key=key, headers=list(headers))
        return sent

    def send_batch(self, batch: SealedBatch, topic: str, partition: int, *, topic_id: TopicId | None) -> KafkaSent:
        sent = KafkaSent(self._producer.poll, self._on_failed_for_good, batch.record_count)
        for _, timestamp_ms, key, value, headers in read_records(batch.seal()):
            self._produce(sent, topic, partition, value=value, key=key, headers=headers, timestamp=timestamp_ms)
        return sent

    def check(self) -> None:
        if self._dead is not None:
            raise self._dead

    def flush(self, timeout: float) -> None:
        if left := self._producer.flush(timeout):
            raise ottla.TimeoutError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"timed out after {timeout:g} s with {counted(left, 'unacknowledged record')}",
            )
        failures = self._failures.copy()
        self._failures.clear()
        for failure in failures:
            raise failure

    def init_transactions(self) -> None:
        with kafka_errors():
            self._producer.init_transactions(_COMMIT_S)

    def transaction(self) -> KafkaTransaction:
        return KafkaTransaction(self._producer)

    def send_offsets(self, offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata], member: Member) -> None:
        assert isinstance(member, KafkaMember)
        with kafka_errors():
            self._producer.send_offsets_to_transaction(to_commit(offsets), member.group_metadata(), _COMMIT_S)

    def close(self) -> None:
        self._producer.purge()
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _on_failed(self, error: KafkaError) -> None:
        self._failures.append(as_ottla(error))
        self._on_failed_for_good(error)

    def _on_failed_for_good(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._dead = as_ottla(error)

    def _produce(self, sent: KafkaSent, topic: str, partition: int, **record: Any) -> None:
        deadline_at = monotonic() + _ROOM_S
        while True:
            try:
                return self._producer.produce(topic, partition=partition, on_delivery=sent.on_delivery, **record)
            except KafkaException as failure:
                self._on_failed_for_good(failure.args[0])
                raise as_ottla(failure.args[0]) from failure
            except BufferError:
                if monotonic() > deadline_at:
                    raise ottla.BufferFullError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"the buffer stayed full for {_ROOM_S:g} s, so a record for {topic} was not sent",
                    ) from None
                self._producer.poll(_STEP_S)


class KafkaTransaction:
    """The `Transaction` of another Kafka."""

    def __init__(self, producer: Producer) -> None:
        self._producer: Final = producer
        self.aborted = False

    def __enter__(self) -> Self:
        with kafka_errors():
            self._producer.begin_transaction()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> Literal[False]:
        if error is not None:
            self._abort()
            return False
        deadline_at = monotonic() + _COMMIT_S
        while not self._is_committed():
            if monotonic() > deadline_at:
                raise ottla.TimeoutError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "the target did not report in time whether the transaction was committed",
                )
        return False

    def _is_committed(self) -> bool:
        """Commit, and return False if the same call has to be repeated."""
        try:
            self._producer.commit_transaction(_COMMIT_S)
        except KafkaException as failure:
            error = failure.args[0]
            if error.txn_requires_abort():
                self._abort()
            elif error.retriable():
                return False
            raise as_ottla(error) from failure
        return True

    def _abort(self) -> None:
        with kafka_errors():
            self._producer.abort_transaction(_COMMIT_S)
        self.aborted = True
