"""The records that a producer has not sent yet: a queue of batches per partition, in a buffer with a limit in bytes.

A batch is full at `batch_bytes`, and the next record begins a new one. Where a request may have only one batch of a
partition, a new one would only wait behind the full one. So while earlier batches of the partition are queued or in
flight, the full batch grows instead, up to `grown_bytes`. The delivery timeout counts from the first record of the
batch. So the batch takes no record that would have lost more than a tenth of its timeout.

Each batch counts with its limit while it is open and with its real size once it is closed. Requests in flight also
count, because they hold a second copy of their batches.

A signal handler may raise within any call here, on the user's thread, and CPython runs handlers only at calls, at the
beginning of functions, and in loops. So what belongs together is stored in one line without a call, after all else. A
batch whose builder was interrupted takes no further record, and has its records counted when it is closed (I44).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.machines.batches import ProducerBatch, ProducerLimits
from ottla.machines.failures import record_too_large
from ottla.machines.queues import PartitionQueue
from ottla.machines.requests import RequestsInFlight
from ottla.machines.sequences import Sequences
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.builder import RecordBatchBuilder, SealedBatch
from ottla_core.records.record import Header

_GROWING_SHARE: Final = 0.1
"""The share of the delivery timeout in which a batch may grow."""
_STEP_BYTES: Final = 64 * 1024
"""A small batch doubles, by at most this step. Few steps are better, because a step costs more than a record does."""


class RecordBuffer:
    """The queues of all partitions. `now` is in monotonic seconds; `limits` and `new_builder` never change."""

    def __init__(
        self,
        limits: ProducerLimits,
        new_builder: Callable[[int], RecordBatchBuilder],
        new_ticket: Callable[[], object] = object,
    ) -> None:
        self.limits = limits
        self.exhausted = False
        self.incomplete: dict[ProducerBatch, None] = {}
        self._new_builder = new_builder
        self._new_ticket = new_ticket
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._waiting: dict[PartitionQueue, None] = {}  # queues with a batch that is not in flight, in turn
        self._in_flight = RequestsInFlight()
        self._charged_bytes = 0  # of all batches

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition, which is created at the first call."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition, self._new_sequences())
        return queue

    def _new_sequences(self) -> Sequences | None:
        return Sequences() if self.limits.idempotent else None

    def known(self, queue: PartitionQueue) -> PartitionQueue:
        """Return the partition's current queue: this one, unless it was forgotten and replaced."""
        return self._queues.setdefault(queue.partition, queue)

    def forget(self, queue: PartitionQueue) -> None:
        """Forget an unused queue.

        As in Kafka, a queue is kept if its sequence numbers continue, because brokers remember them.
        """
        assert queue.empty
        if queue.sequences is None or queue.sequences.spent:
            self._queues.pop(queue.partition, None)

    def append(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> ProducerBatch | None:
        """Append a record to the open batch, as its number `count - 1`; return None without an open batch, or if it is
        full."""
        batch = queue.open
        if batch is None or not batch.builder.append(timestamp_ms, key, value, headers):
            return None
        batch.count = batch.builder.record_count
        return batch

    def append_to_new(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        now: float,
    ) -> ProducerBatch | None:
        """Append a record that has no room in the open batch, and return its batch, or None while the buffer is full.

        That is a new batch, or the open one if it may grow. Afterwards the sender may have a batch to send. Raises
        RecordTooLargeError, and the builder's errors.
        """
        size_bytes = _record_bytes(key, value, headers)
        if queue.open is not None and self._may_grow(queue, queue.open, size_bytes, now):
            if not self._grow(queue, queue.open, size_bytes):
                return None
            return self.append(queue, timestamp_ms, key, value, headers)
        queue.raise_limit(now)
        full_bytes = min(self.limits.batch_bytes, queue.largest_bytes)
        charged = max(full_bytes, size_bytes)
        if not self._has_room_for(size_bytes, charged):
            return None
        builder = self._new_builder(full_bytes)
        builder.append(timestamp_ms, key, value, headers)
        self._close(queue)
        return self._open(queue, ProducerBatch(queue.partition, builder, self._new_ticket(), now, self.limits, charged))

    def _may_grow(self, queue: PartitionQueue, batch: ProducerBatch, size_bytes: int, now: float) -> bool:
        """Return whether the full, open batch takes a further record of this size."""
        if not batch.builder.takes_records or not (queue.closed or queue.in_flight):
            return False
        largest_bytes = min(self.limits.grown_bytes, queue.largest_bytes)
        return batch.builder.size_bytes + size_bytes <= largest_bytes and (
            now < batch.opened_at + self.limits.delivery_timeout_s * _GROWING_SHARE
        )

    def _grow(self, queue: PartitionQueue, batch: ProducerBatch, size_bytes: int) -> bool:
        """Let the open batch take a further record of this size, and more; return False while the buffer is full."""
        limits = self.limits
        largest_bytes = min(limits.grown_bytes, queue.largest_bytes)
        step_bytes = max(limits.batch_bytes, min(batch.charged_bytes, _STEP_BYTES))
        needed_bytes = batch.builder.size_bytes + size_bytes
        grown_bytes = min(largest_bytes, max(batch.charged_bytes + step_bytes, needed_bytes))
        if not self._has_room_for(size_bytes, grown_bytes - batch.charged_bytes):
            return False
        assert isinstance(batch.builder, RecordBatchBuilder)
        batch.builder.grow(grown_bytes)
        self._charge(batch, grown_bytes)
        batch.grown = True
        return True

    def append_batch(
        self, queue: PartitionQueue, sealed: SealedBatch, now: float, topic_id: TopicId | None = None
    ) -> ProducerBatch | None:
        """Append a finished batch after all earlier records; return None while the buffer is full.

        With a `topic_id`, the batch fails if the topic was recreated since. Raises RecordTooLargeError.
        """
        if not self._has_room_for(sealed.size_bytes, sealed.size_bytes):
            return None
        self._close(queue)
        batch = ProducerBatch(queue.partition, sealed, self._new_ticket(), now, self.limits, sealed.size_bytes)
        batch.count, batch.topic_id = sealed.record_count, topic_id
        self._open(queue, batch)
        self._close(queue)
        return batch

    def _has_room_for(self, size_bytes: int, charged: int) -> bool:
        limits = self.limits
        if size_bytes > limits.request_bytes:
            raise record_too_large(size_bytes, limits.request_bytes)
        if self.used_bytes + charged > limits.buffer_bytes and self.used_bytes:
            self.exhausted = True
            return False
        return True

    def _open(self, queue: PartitionQueue, batch: ProducerBatch) -> ProducerBatch:
        charged = self._charged_bytes + batch.charged_bytes
        queue.open, self._charged_bytes, self.incomplete[batch], self._waiting[queue] = batch, charged, None, None
        return batch

    def _close(self, queue: PartitionQueue) -> None:
        """Close the open batch, if there is one. Its records and bytes are then known."""
        batch = queue.open
        if batch is not None:
            batch.count = batch.builder.close()
            self._charge(batch, batch.builder.size_bytes)
            queue.close()

    def _charge(self, batch: ProducerBatch, size_bytes: int) -> None:
        """Let the batch count with this size."""
        charged_bytes = self._charged_bytes + size_bytes - batch.charged_bytes
        self._charged_bytes, batch.charged_bytes = charged_bytes, size_bytes

    @property
    def used_bytes(self) -> int:
        """The bytes in the buffer."""
        return self._charged_bytes + self._in_flight.bytes

    @property
    def has_room(self) -> bool:
        """Return whether a record of any legal size can be appended now."""
        return self.used_bytes <= self.limits.buffer_bytes - self.limits.request_bytes


def _record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return an upper bound for a record's size in its own batch: header, varints, key, value, headers."""
    size_bytes = 61 + 36 + len(key or b"") + len(value or b"")
    return size_bytes + sum(len(name) * 4 + len(text or b"") + 10 for name, text in headers)
