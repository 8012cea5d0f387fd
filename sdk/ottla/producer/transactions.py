"""A transaction as a `with` block, which commits at its end or aborts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ottla.client.guard import Guard
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata, checked_offsets
from ottla.errors import FencedError, OttlaError, TransactionAborted, config_error
from ottla.machines.transaction import TransactionState
from ottla.producer.delivery import Delivery
from ottla.producer.transaction_manager import ABORTED, AGAIN, TransactionManager
from ottla_core.model import TopicPartition

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


class Transaction:
    """One transaction, used as a `with` block; `Producer.transaction()` returns it."""

    def __init__(
        self,
        send: Callable[..., Delivery],
        manager: TransactionManager,
        guard: Guard,
        check_open: Callable[[], None],
        consumer: GroupMember | None,
    ) -> None:
        self._send: Final = send
        self._manager: Final = manager
        self._guard: Final = guard
        self._check_open: Final = check_open
        self._consumer: Final = consumer
        self.aborted = False  # whether nothing of it counts, so that the work has to be repeated

    def send(self, value: Any, **arguments: Any) -> Delivery:
        """Send a record like `Producer.send`. Consumers with read_committed see it after the block has committed."""
        return self._send(value, **arguments)

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
        self._usable().send_offsets(group, checked_offsets(offsets))

    def __enter__(self) -> Self:
        manager = self._usable()
        if manager.transactions.state is TransactionState.UNINITIALIZED:
            manager.init()
        if manager.transactions.state is TransactionState.ABORTING:
            manager.abort()  # the previous block is over, but its abort got no response in time
        manager.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        manager = self._manager
        if self._guard.foreign:  # the transaction is the parent's
            return
        if error is not None:
            self._abort(manager)
        elif manager.transactions.state in (TransactionState.READY, TransactionState.PREPARED):  # the block ended it
            self._check_open()  # or prepared it, and it was not a close, which aborts
        else:
            self._commit(manager)

    def _usable(self) -> TransactionManager:
        """Return the manager. Raises where the producer's calls raise: in a forked child, or after its close."""
        self._guard.check()
        self._check_open()
        return self._manager

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
