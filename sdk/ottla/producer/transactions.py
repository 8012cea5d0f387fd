"""A transaction as a `with` block, which commits at its end or aborts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from ottla.client.offsets import GroupMetadata, OffsetAndMetadata
from ottla.errors import FencedError, OttlaError, TransactionAborted, config_error
from ottla.machines.transaction import TransactionState
from ottla.producer.delivery import Delivery
from ottla.producer.transaction_manager import ABORTED, AGAIN, TransactionManager
from ottla_core.model import TopicPartition

if TYPE_CHECKING:
    from ottla.producer.producer import Producer

logger = logging.getLogger("ottla.producer")


class GroupMember(Protocol):
    """A consumer in a group that can go back to the committed offsets."""

    @property
    def group_metadata(self) -> GroupMetadata: ...
    def seek_to_committed(self) -> None: ...


class ConsumedBatch(Protocol):
    """A batch that a consumer in a group has returned."""

    @property
    def group_metadata(self) -> GroupMetadata | None: ...
    @property
    def offsets(self) -> Mapping[TopicPartition, int]: ...


class Transactional:
    """The part of a Producer that needs a `transactional_id`: Kafka's calls, under Kafka's names.

    A `transaction()` block makes all of these calls in order.
    """

    send: Callable[..., Delivery]
    _guard: Guard
    _manager: TransactionManager | None = None

    def init_transactions(self) -> None:
        """Call once, before the first transaction: fence earlier producers of this id and abort their open transaction.

        Raises ConfigError (a timeout above the cluster's, no transactional_id), ottla.TimeoutError and ConnectError.
        """
        self._transactions().init()

    def begin_transaction(self) -> None:
        """Begin a transaction: all later sends belong to it.

        Raises ConfigError if a transaction is open, and FencedError.
        """
        self._transactions().begin()

    def send_offsets_to_transaction(self, offsets: OffsetsLike, group_metadata: GroupMetadata | GroupMember) -> None:
        """Commit {(topic, partition): offset of the next record} for the group, as part of the transaction.

        `group_metadata` is the `group_metadata` of a consumer, or the consumer itself. Raises CommitFailedError if the
        group has rebalanced without that consumer, and UnknownTopicError if a topic was recreated since its records
        were returned. After any error, the only option is to abort the transaction.
        """
        group = group_metadata if isinstance(group_metadata, GroupMetadata) else group_metadata.group_metadata
        self._transactions().send_offsets(group, checked_offsets(offsets))

    def commit_transaction(self) -> None:
        """Wait for every send, and commit. The commit is durable on return; consumers see it a moment later.

        Raises TransactionAborted if no record of the transaction takes effect; if the transaction is still open, which
        `begin_transaction()` reports, call `abort_transaction()`. Also raises FencedError and ottla.TimeoutError; after
        a timeout, a second call continues the commit.
        """
        self._transactions().commit()

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for every send, and keep the transaction open until this producer or another process ends it.

        It is not ended by a timeout, by a newer producer with the same id, or by `close`. Pass the result to
        `admin.transactions.end` to commit or abort the transaction; None means that nothing was sent, so no decision is
        needed. The txn-coordinators need `transaction_two_phase_commit_enable`. Raises like `commit_transaction`.
        """
        return self._transactions().prepare()

    def abort_transaction(self) -> None:
        """Abort: no record sent since `begin_transaction()` takes effect. Raises FencedError and ottla.TimeoutError."""
        self._transactions().abort()

    def transaction(self, consumer: GroupMember | None = None) -> Transaction:
        """Return a `with` block that is one transaction: it commits at its end, and aborts if it raises.

            producer = ottla.Producer(transactional_id="totals-1", topic="totals")
            with producer, ottla.Consumer("orders", group="totals", commit="manual") as consumer:
                batch = consumer.poll(timeout=1)
                with producer.transaction(consumer) as tx:
                    for order in batch.values():
                        tx.send(order["total"])
                    tx.commit_offsets(batch)

        The first block calls `init_transactions`. If the block raises an error, the transaction is aborted and the
        error is passed on. If you passed a `consumer`, it returns to its committed offsets and reads the same records
        again. The block raises TransactionAborted if the commit fails, after which the next transaction may begin. It
        also raises FencedError, and ottla.TimeoutError if the outcome is not known.
        """
        self._transactions()
        return Transaction(self, consumer)

    def _check_open(self) -> None:
        raise NotImplementedError

    def _transactions(self) -> TransactionManager:
        self._guard.check()
        self._check_open()
        if self._manager is None:
            raise config_error("this producer is not transactional", hint="pass transactional_id=")
        return self._manager


class Transaction:
    """One transaction, used as a `with` block; `Producer.transaction()` returns it."""

    def __init__(self, producer: Producer[Any, Any], consumer: GroupMember | None) -> None:
        self._producer: Final = producer
        self._consumer: Final = consumer
        self.aborted = False  # whether nothing of it counts, so that the work has to be repeated

    def send(self, value: Any, **arguments: Any) -> Delivery:
        """Send a record like `Producer.send`. Consumers with read_committed see it after the block has committed."""
        return self._producer.send(value, **arguments)

    def commit_offsets(self, batch: ConsumedBatch) -> None:
        """Commit the offsets after `batch` for the group that read it, as part of the transaction.

        `batch` must come from `poll` or `batches`. Raises like `send_offsets_to_transaction`.
        """
        group = batch.group_metadata
        if group is None:
            raise config_error(
                "the batch was read without a group, so it has no offsets to commit",
                hint="read it with Consumer(group=…)",
            )
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in batch.offsets.items()}
        self._producer.send_offsets_to_transaction(offsets, group)

    def __enter__(self) -> Self:
        manager = self._producer._transactions()
        if manager.transactions.state is TransactionState.UNINITIALIZED:
            manager.init()
        if manager.transactions.state is TransactionState.ABORTING:
            manager.abort()  # the previous block is over, but its abort got no response in time
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
        elif manager.transactions.state in (TransactionState.READY, TransactionState.PREPARED):  # the block ended it
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
        """Abort, so that the next one may begin. Raises FencedError if the producer was fenced."""
        if manager.transactions.state in (TransactionState.OPEN, TransactionState.FAILED):
            try:
                manager.abort()
            except FencedError:
                raise
            except OttlaError as error:
                logger.warning("%s: the transaction has not been aborted yet: %s", manager.id, error)
        self.aborted = True
        if self._consumer is not None:
            self._consumer.seek_to_committed()
