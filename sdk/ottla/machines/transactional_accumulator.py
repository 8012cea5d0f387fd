"""The accumulator of a transactional producer: every record that it accepts, sends or gives up belongs to the open
transaction.

* Records are accepted only in an open transaction. When a transaction ends, no batch is open, so only a new batch has
  to check this.
* In a transaction of version 1 a partition's batches wait until the partition is part of the transaction.
* A batch that finally fails, or is out of order, fails the transaction. All of its remaining batches fail immediately,
  wherever they are, because none of them can take effect any more, and a late batch has an old epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.errors import OttlaError
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.failures import broker_error
from ottla.machines.metadata import Route
from ottla.machines.queues import PartitionQueue, SentBatch
from ottla.machines.requests import Drained, OutgoingRequest, Reported
from ottla.machines.sequences import OwnedSequences
from ottla.machines.transaction import Transactions
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_core.records.builder import RecordBatchBuilder, SealedBatch
from ottla_core.records.record import Header


class TransactionalAccumulator(Accumulator):
    """An Accumulator whose `transactions` own the producer's epochs."""

    def __init__(
        self,
        limits: ProducerLimits,
        new_builder: Callable[[int], RecordBatchBuilder],
        new_ticket: Callable[[], object] = object,
    ) -> None:
        super().__init__(limits, new_builder, new_ticket)
        self.transactions: Final = Transactions()

    def append_to_new(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        now: float,
    ) -> ProducerBatch | None:
        """Like the method of Accumulator; also raises the errors of `Transactions.check_open`."""
        self.transactions.check_open()
        return super().append_to_new(queue, timestamp_ms, key, value, headers, now)

    def append_batch(
        self, queue: PartitionQueue, sealed: SealedBatch, now: float, topic_id: TopicId | None = None
    ) -> ProducerBatch | None:
        """Like the method of Accumulator; also raises the errors of `Transactions.check_open`."""
        self.transactions.check_open()
        return super().append_batch(queue, sealed, now, topic_id)

    @property
    def transaction_version(self) -> int:
        """The version of the open transaction."""
        return self.transactions.version

    def drain(self, now: float, routes: Mapping[TopicPartition, Route]) -> Drained:
        """Like the method of Accumulator."""
        drained = super().drain(now, routes)
        self.transactions.begun = self.transactions.begun or bool(drained.requests)
        self._drop_failed(drained.reported)
        return drained

    def on_response(
        self, request: OutgoingRequest, responses: Mapping[PartitionId, BatchResponse], now: float
    ) -> Reported:
        """Like the method of Accumulator."""
        return self._drop_failed(super().on_response(request, responses, now))

    def on_failed(self, request: OutgoingRequest, code: int, message: str, now: float) -> Reported:
        """Like the method of Accumulator."""
        return self._drop_failed(super().on_failed(request, code, message, now))

    def refuse(self, partition: TopicPartition, error: OttlaError) -> Reported:
        """Fail the batches of a partition that can't be in the transaction, and with it the transaction."""
        reported = Reported()
        if (queue := self._queues.get(partition)) is not None:
            self._close(queue)
            while queue.closed:
                self._give_up(queue, queue.closed.popleft(), error, reported)
        self.transactions.fail(error)
        return self._drop_failed(reported)

    def abort(self, reason: OttlaError) -> list[ProducerBatch]:
        """Like `Accumulator.abort`; a transaction that lost a record can't be committed."""
        self.transactions.fail(reason)
        return super().abort(reason)

    def _is_held(self, queue: PartitionQueue, head: ProducerBatch, now: float, drained: Drained) -> bool:
        if super()._is_held(queue, head, now, drained):
            return True
        if self.transactions.may_send_to(queue.partition):
            return False
        if self.transactions.request(queue.partition):
            drained.wants_partitions.append(queue.partition)
        return True

    def _new_sequences(self) -> OwnedSequences:
        return OwnedSequences(self.transactions)

    def _report(self, part: SentBatch, response: BatchResponse, now: float, reported: Reported) -> None:
        super()._report(part, response, now, reported)
        sequences = part.queue.sequences
        if isinstance(sequences, OwnedSequences) and sequences.broken:
            self.transactions.fail(broker_error(part.batch, response))

    def _give_up(self, queue: PartitionQueue, batch: ProducerBatch, error: OttlaError, reported: Reported) -> None:
        super()._give_up(queue, batch, error, reported)
        self.transactions.fail(error)

    def _drop_failed(self, reported: Reported) -> Reported:
        if self.transactions.takes_nothing and self.incomplete:
            reported.settled += self.abort(self.transactions.reason())
        return reported
