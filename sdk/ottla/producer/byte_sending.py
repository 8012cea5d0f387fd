"""The part of a Producer that sends bytes as they are, for connectors: no serializer or interceptor sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock

from ottla.client.guard import Guard
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import ProducerBatch
from ottla.machines.queues import PartitionQueue
from ottla.producer.delivery import Delivery
from ottla.producer.send_columns import ByteColumns
from ottla.producer.target import Target
from ottla.producer.targets import Targets
from ottla_core.model import TopicId
from ottla_core.records.builder import SealedBatch
from ottla_core.records.record import Header


class ByteSending:
    """Methods of every Producer; `flush` reports the outcomes."""

    _accumulator: Accumulator
    _append_to_new: Callable[
        [Target, PartitionQueue | None, int, bytes | None, bytes | None, Sequence[Header]], ProducerBatch
    ]
    _check_open: Callable[[], None]
    _find_target: Callable[[str | None], Target]
    _guard: Guard
    _interrupted: Callable[[], bool]
    _lock: RLock
    _targets: dict[str, Target]
    _topics: Targets
    _wall_ms: Callable[[], int]
    _when_room: Callable[[Target, Callable[[float], ProducerBatch | None]], ProducerBatch]

    def send_columns(self, rows: ByteColumns, topic: str) -> None:
        """For connectors: send many rows of bytes.

        Waits and raises like `send`; if a row causes the error, some of the rows before it have been sent.
        """
        target = self._targets.get(topic) or self._find_target(topic)
        for rows_of_slice in rows.slices(target):
            timestamp = self._wall_ms()
            if self._interrupted():
                raise self._guard.in_between()
            with self._lock:
                for queue, key, value, headers in rows_of_slice:
                    chosen = queue or target.queues[target.sticky.current]
                    if self._accumulator.append(chosen, timestamp, key, value, headers) is None:
                        self._append_to_new(target, queue, timestamp, key, value, headers)

    def send_batch(
        self, batch: SealedBatch, topic: str, partition: int, *, topic_id: TopicId | None = None
    ) -> Delivery:
        """For mirrors: send a whole batch, ignoring `linger`; the Delivery is that of its first record.

        Its records are written unchanged, after everything sent to the partition before. An unknown partition is looked
        up, since it may be new. With a `topic_id`, the batch is written only to the topic with that id: if the topic
        has been recreated, the delivery fails with UNKNOWN_TOPIC_ID. The method waits and raises like `send`.
        """
        target = self._targets.get(topic) or self._find_target(topic)
        if partition >= len(target.queues):
            self._topics.refresh(topic)
            target = self._find_target(topic)
        queue = target.numbered(partition)
        if self._interrupted():
            raise self._guard.in_between()
        with self._lock:
            self._check_open()
            self._topics.retain(target)
            known = self._accumulator.known(queue)
            sent = self._when_room(target, lambda now: self._accumulator.append_batch(known, batch, now, topic_id))
        return Delivery(sent, 0, batch.max_timestamp_ms)
