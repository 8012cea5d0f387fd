"""What admin.transactions returns: transactions as coordinators know them, and producers as partitions know them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ottla_core.model import TopicPartition

ONGOING: Final = "Ongoing"


@dataclass(frozen=True, slots=True)
class TransactionSummary:
    """An entry in the list of transactional ids.

    `coordinator` is the id of the txn-coordinator that owns `shard`, the shard of the transactional id. Kafka's
    clusters report neither, so both are -1 there.
    """

    name: str
    state: str
    producer_id: int
    coordinator: int
    shard: int


@dataclass(frozen=True, slots=True)
class TransactionEvent:
    """An event in the history of a transactional id.

    `kind` is initialized, fenced, timed-out, prepared, committed or aborted. `producer_id` and `producer_epoch` are the
    ones in use after the event. `client_id` and `host` describe the client that caused the event.
    """

    datetime: datetime
    kind: str
    producer_id: int
    producer_epoch: int
    client_id: str
    host: str
    cause: str


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """The state of a transactional id and of its last transaction.

    `timeout` is in seconds, or None if the transaction has no timeout (two-phase commit). `started_at` is None if no
    transaction is open. `partitions` are the partitions of the transaction; once it is ending, only those that do not
    have a marker yet. `events` are the last ten events since the coordinator took over, oldest first.

    Kafka's clusters do not report `updated_at` (then None), `is_prepared` (False), `version` (0), `events` (empty),
    `coordinator` and `shard` (both -1).
    """

    name: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout: float | None
    started_at: datetime | None
    updated_at: datetime | None
    partitions: tuple[TopicPartition, ...]
    is_prepared: bool
    version: int
    events: tuple[TransactionEvent, ...]
    coordinator: int
    shard: int

    @property
    def ends_by(self) -> datetime | None:
        """The time when the coordinator aborts the transaction unless its producer ends it first, or None."""
        if self.state != ONGOING or self.is_prepared or self.timeout is None or self.started_at is None:
            return None
        return self.started_at + timedelta(seconds=self.timeout)

    def holds(self, partition: TopicPartition) -> bool:
        """Return whether ending the transaction writes a marker to `partition`."""
        return partition in self.partitions


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """The state of one producer in a partition.

    `last_sequence` and `last_written_at` describe the producer's newest batch; they are -1 and None if the producer has
    no batches.

    `coordinator_epoch` is the highest coordinator epoch among its transaction markers, or -1 if it has no markers.
    `first_offset` is the first offset of its open transaction in the partition, or None if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_written_at: datetime | None
    coordinator_epoch: int
    first_offset: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition.

    `transaction` is the coordinator's view of the transaction, or None if no coordinator knows it. Apache Kafka's
    coordinators do not say whether they have listed everything, so one of them may know the transaction although none
    has listed it. There, `may_be_live` is True until the producer has written nothing for `transaction.max.timeout.ms`
    plus five minutes.
    """

    partition: TopicPartition
    first_offset: int
    producer: ActiveProducer
    transaction: TransactionInfo | None
    may_be_live: bool = False

    @property
    def is_hanging(self) -> bool:
        """Whether the transaction will stay open, because no coordinator knows that it includes this partition."""
        return not self.may_be_live and (self.transaction is None or not self.transaction.holds(self.partition))


@dataclass(frozen=True, slots=True)
class PartitionTransactions:
    """The open transactions in a partition, oldest first.

    Consumers with read_committed get the records below `last_stable_offset`, and consumers with read_uncommitted get
    the records below `high_watermark`.
    """

    partition: TopicPartition
    high_watermark: int
    last_stable_offset: int
    open: tuple[OpenTransaction, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether read_committed consumers wait for an open transaction to end or for a marker to be replicated."""
        return self.last_stable_offset < self.high_watermark
