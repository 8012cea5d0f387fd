"""Transactions as a caller sees them: Kafka's calls, and a `with` block that commits at its end or aborts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ottla.client.guard import Guard
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata, OffsetsLike, checked_offsets
from ottla.errors import FencedError, OttlaError, TransactionAborted, config_error
from ottla.machines.transaction import PreparedTransaction, TransactionState
from ottla.producer.delivery import Delivery
from ottla.producer.transaction_manager import ABORTED, AGAIN, TransactionManager
from ottla_core.model import TopicPartition

logger = logging.getLogger("ottla.producer")


class GroupMember(Protocol):
    """A consumer in a group, that can be led back."""

    @property
    def group_metadata(self) -> GroupMetadata: ...
    def seek_to_committed(self) -> None: ...


class ConsumedBatch(Protocol):
    """What a consumer in a group has handed out."""

    @property
    def group_metadata(self) -> GroupMetadata | None: ...
    @property
    def offsets(self) -> Mapping[TopicPartition, int]: ...


class Transactional:
    """The part of a Producer that needs a `transactional_id`: Kafka's calls, under Kafka's names.

    `transaction()` makes all of them in their order.
    """

    send: Callable[..., Delivery]
    _guard: Guard
    _manager: TransactionManager | None = None

    def init_transactions(self) -> None:
        """Once, before the first transaction: fence earlier producers of this id, and abort what they left open.

        Raises ConfigError (a timeout above the cluster's, no transactional_id), ottla.TimeoutError and ConnectError.
        """
        self._transactions().init()

    def begin_transaction(self) -> None:
        """What is sent from now on is of one transaction. Raises ConfigError where one is open, and FencedError."""
        self._transactions().begin()

    def send_offsets_to_transaction(self, offsets: OffsetsLike, group_metadata: GroupMetadata | GroupMember) -> None:
        """Commit {(topic, partition): offset of the next record} for the group, with the transaction.

        `group_metadata` is a consumer's, or the consumer. Raises CommitFailedError where the group has gone on without
        that consumer, UnknownTopicError where a topic was made anew since its records were handed out; whatever is
        raised, the transaction can only be aborted then.
        """
        group = group_metadata if isinstance(group_metadata, GroupMetadata) else group_metadata.group_metadata
        self._transactions().send_offsets(group, checked_offsets(offsets))

    def commit_transaction(self) -> None:
        """Wait for all that was sent, and commit. It is durable on return; readers see it a moment later.

        Raises TransactionAborted where nothing of it counts: call `abort_transaction()` if it is still open, as
        `begin_transaction()` says; FencedError; ottla.TimeoutError, after which the same call goes on.
        """
        self._transactions().commit()

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for all that was sent, and leave it open until it is decided, by this producer or by another process.

        Nothing else ends it then: no timeout, no newer producer of the id, no close. Where nothing was sent there is
        nothing to decide: None. The txn-coordinators need `transaction_two_phase_commit_enable`. Raises as
        `commit_transaction`, and `admin.transactions.end` takes the result.
        """
        return self._transactions().prepare()

    def abort_transaction(self) -> None:
        """Abort: nothing that was sent since `begin_transaction()` counts. Raises FencedError, ottla.TimeoutError."""
        self._transactions().abort()

    def transaction(self, consumer: GroupMember | None = None) -> Transaction:
        """A block that is a transaction: committed at its end, aborted where it raises.

            producer = ottla.Producer(transactional_id="totals-1", topic="totals")
            with producer, ottla.Consumer("orders", group="totals", commit="manual") as consumer:
                batch = consumer.poll(timeout=1)
                with producer.transaction(consumer) as tx:
                    for order in batch.values():
                        tx.send(order["total"])
                    tx.commit_offsets(batch)

        Inits by itself the first time. An error of the block passes, once all is aborted; `consumer`, if one is given,
        then goes back to what its group has committed, so that the same records are read again. Raises
        TransactionAborted where committing fails, and then the next transaction may begin; FencedError;
        ottla.TimeoutError where the outcome is not known.
        """
        self._transactions()
        return Transaction(self, consumer)

    def _check_open(self) -> None:
        raise NotImplementedError

    def _transactions(self) -> TransactionManager:
        self._guard.check()
        self._check_open()
        if self._manager is None:
            raise config_error("this producer has no transactions", hint="give transactional_id=")
        return self._manager


class Transaction:
    """One transaction, as a `with` block; made by `Producer.transaction()`."""

    def __init__(self, producer: Transactional, consumer: GroupMember | None) -> None:
        self._producer: Final = producer
        self._consumer: Final = consumer
        self.aborted = False  # whether nothing of it counts, so that the same is to be done again

    def send(self, value: Any, **arguments: Any) -> Delivery:
        """Like Producer.send; the record counts once the block has come to its end."""
        return self._producer.send(value, **arguments)

    def commit_offsets(self, batch: ConsumedBatch) -> None:
        """Commit where its consumer continues after `batch`, with the transaction, for the consumer's group.

        `batch` is what `poll` or `batches` gave. Raises like `send_offsets_to_transaction`.
        """
        group = batch.group_metadata
        if group is None:
            raise config_error("the batch is of no group, so it has no offsets to commit", hint="give Consumer(group=)")
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in batch.offsets.items()}
        self._producer.send_offsets_to_transaction(offsets, group)

    def __enter__(self) -> Self:
        manager = self._producer._transactions()
        if manager.transactions.state is TransactionState.UNINITIALIZED:
            manager.init()
        if manager.transactions.state is TransactionState.ABORTING:
            manager.abort()  # the last one's block is over, and its abort was not answered in time
        manager.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        manager = self._producer._manager
        if manager is None or self._producer._guard.foreign:  # the transaction is the parent's
            return
        if error is not None:
            self._abort(manager)
        elif manager.transactions.state in (TransactionState.READY, TransactionState.PREPARED):  # the block has ended
            self._producer._check_open()  # or prepared it, and it was not a close, which aborts
        else:
            self._commit(manager)

    def _commit(self, manager: TransactionManager) -> None:
        try:
            manager.commit()
        except BaseException as failure:
            if manager.transactions.state is TransactionState.COMMITTING:  # the outcome is not known
                raise
            self._abort(manager)
            if isinstance(failure, OttlaError) and manager.transactions.state is not TransactionState.FATAL:
                message = failure.message.removeprefix(ABORTED)
                raise TransactionAborted(failure.code, f"{ABORTED}{message}", hint=AGAIN) from failure
            raise

    def _abort(self, manager: TransactionManager) -> None:
        """After this the next one may begin, unless the producer was fenced: that is raised."""
        if manager.transactions.state in (TransactionState.OPEN, TransactionState.FAILED):
            try:
                manager.abort()
            except FencedError:
                raise
            except OttlaError as error:
                logger.warning("%s: the transaction is not aborted yet: %s", manager.id, error)
        self.aborted = True
        if self._consumer is not None:
            self._consumer.seek_to_committed()
