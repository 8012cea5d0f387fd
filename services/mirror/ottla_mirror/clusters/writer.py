"""A writer writes to the target, in order and without repeats. It recovers by itself from whatever can be retried."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import ottla
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.builder import SealedBatch
from ottla_mirror.clusters.member import Member
from ottla_mirror.machines.encoding import Run

logger = logging.getLogger("ottla.mirror")

DELIVERY_S: Final = 24 * 3600.0
"""A writer waits this long for a target that is away. Giving up earlier would copy the batches in flight twice."""

BUFFER_BYTES: Final = 48 * 1024 * 1024
"""A writer holds at most this many bytes that the target has not acknowledged."""

_CLOSE_S: Final = 5.0
"""A writer that is being closed waits this long for acknowledgements. A delivery may take a day, and a failed flow
restarts only once its writer is closed."""


class BatchDelivery(NamedTuple):
    """A batch is delivered as a whole, or not at all. It is an `Outcome`."""

    delivery: ottla.Delivery
    record_count: int

    def done(self) -> bool:
        return self.delivery.done()

    def runs(self) -> Sequence[Run]:
        offset = self.delivery.result().offset
        return () if offset < 0 else (Run(offset, self.record_count),)

    def refusal(self) -> str:
        return str(self.delivery.last_refusal() or "")


class Writer:
    """A writer uses transactions if its producer has a transactional id. For one thread."""

    def __init__(self, producer: ottla.Producer[Any, Any]) -> None:
        self._producer: Final = producer
        self.flush: Final = producer.flush
        self.init_transactions: Final = producer.init_transactions
        self.transaction: Final = producer.transaction

    def send(
        self, value: bytes | None, *, key: bytes, topic: str, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> ottla.Delivery:
        return self._producer.send(value, key=key, headers=headers, topic=topic)

    def send_batch(self, batch: SealedBatch, topic: str, partition: int, *, topic_id: TopicId | None) -> BatchDelivery:
        """Send a batch. With a `topic_id` it is written only if the topic of that name has that id. Otherwise the
        outcome is UNKNOWN_TOPIC_ID."""
        delivery = self._producer.send_batch(batch, topic, partition, topic_id=topic_id)
        delivery.on_awaited()
        return BatchDelivery(delivery, batch.record_count)

    def send_offsets(self, offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata], member: Member) -> None:
        self._producer.send_offsets_to_transaction(offsets, member.consumer)

    def close(self) -> None:
        """Close the writer within seconds. The caller flushes what must reach the target before that."""
        try:
            self._producer.close(_CLOSE_S)
        except ottla.OttlaError as error:
            logger.info("closing a writer before the target has all records: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
