"""A transaction as a `with` block, which commits at its end or aborts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import get_ident
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ottla.client.guard import Guard
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata, checked_offsets
from ottla.errors import ErrorCode, FencedError, OttlaError, TransactionAborted, config_error
from ottla.machines.transaction import TransactionState
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.producer.delivery import Delivery
from ottla.producer.transaction_manager import ABORTED, AGAIN, TransactionManager
from ottla_core.model import TopicPartition

logger = logging.getLogger("ottla.producer")

_NOT_LEFT: Final = (
    "the producer's previous block did not end: a signal handler raised before its first line, or this block is within "
    "it; its transaction was aborted"
)
_CUT_SHORT: Final = f"{ABORTED}another block of the producer has begun within this one, and aborted it"
_POLL_AGAIN: Final = "poll again: the consumer has gone back; do not nest blocks of one producer"


class GroupMember(Protocol):
    """A consumer in a group that can go back to the committed offsets, an ottla.Consumer or an ottla.aio.Consumer."""

    @property
    def group_metadata(self) -> GroupMetadata: ...
    def go_back_unless(self, outcome: TransactionOutcome) -> None: ...


class ConsumedBatch(Protocol):
    """A batch that a consumer in a group has returned."""

    @property
    def group_metadata(self) -> GroupMetadata | None: ...
    @property
    def offsets(self) -> Mapping[TopicPartition, int]: ...


class Transaction:
    """One transaction, used as a `with` block; `Producer.transaction()` returns it.

    From then on, the consumer goes back before its next call, unless the block is under way or the transaction is known
    to have committed. That needs no line of `__exit__`, where a signal handler may raise.
    """

    def __init__(
        self,
        send: Callable[..., Delivery],
        manager: TransactionManager,
        guard: Guard,
        check_open: Callable[[], None],
        consumer: GroupMember | None,
    ) -> None:
        self._outcome = TransactionOutcome()
        if consumer is not None:
            consumer.go_back_unless(self._outcome)
        self._send: Final = send
        self._manager: Final = manager
        self._guard: Final = guard
        self._check_open: Final = check_open
        self._consumer: Final = consumer
        self._was_entered = False
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
        self.prepare(get_ident())
        return self.enter()

    def prepare(self, owner: object) -> None:
        """For facades: make what follows the block of this thread or task. It comes before `enter`."""
        if self._was_entered:
            self._outcome, self.aborted = TransactionOutcome(), False
        self._was_entered, outcome = True, self._outcome
        outcome.owner = owner
        if self._consumer is not None:
            self._consumer.go_back_unless(outcome)  # again: it may have gone back since `transaction()`

    def enter(self) -> Self:
        """For facades: begin the transaction."""
        manager = self._usable()
        try:
            self._end_previous(manager)
            manager.begin(self._outcome)
        except BaseException:
            self.withdraw()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The very first step, and an assignment: a signal handler may raise in any call.
        self._outcome.is_left = True
        manager = self._manager
        if self._guard.foreign:  # the transaction is the parent's
            return
        if error is not None:
            self._abort(manager)
        elif self._outcome.is_cut_short:
            raise TransactionAborted(ErrorCode.TRANSACTION_ABORTABLE, _CUT_SHORT, hint=AGAIN)
        elif manager.transactions.state in (TransactionState.READY, TransactionState.PREPARED):  # the block ended it
            self._check_open()  # or prepared it, and it was not a close, which aborts
        else:
            self._outcome.is_complete = True
            self._commit(manager)

    def leave(self) -> None:
        """For facades: note that the block is over, even if the thread that ends it has not come to that yet."""
        self._outcome.is_left = True

    def withdraw(self) -> None:
        """For facades: abort what `__enter__` began, because nobody has entered the block."""
        self.leave()
        self._manager.withdraw(self._outcome)

    def _usable(self) -> TransactionManager:
        """Return the manager. Raises where the producer's calls raise: in a forked child, or after its close."""
        self._guard.check()
        self._check_open()
        return self._manager

    def _end_previous(self, manager: TransactionManager) -> None:
        """Make the producer ready, whatever point the previous block has come to. Raises if its records may be lost."""
        match manager.transactions.state:
            case TransactionState.UNINITIALIZED:
                manager.init()
            case TransactionState.ABORTING:
                manager.abort()  # its abort got no response in time
            case TransactionState.COMMITTING if self._consumer is not None:
                manager.commit()  # likewise; where the consumer goes on depends on the outcome alone
            case TransactionState.OPEN | TransactionState.FAILED:
                self._end_block(manager, manager.transactions.outcome)

    def _end_block(self, manager: TransactionManager, before: TransactionOutcome) -> None:
        """Abort the transaction of a block that has been left, or whose end was never reached.

        Leave alone what the program began itself, and the blocks of other threads and tasks: `begin` refuses.
        """
        if before.owner is None or not (before.is_left or before.owner == self._outcome.owner):
            return
        before.is_cut_short = not before.is_left
        manager.abort()
        if before.is_cut_short:
            raise TransactionAborted(ErrorCode.TRANSACTION_ABORTABLE, _NOT_LEFT, hint=_POLL_AGAIN)

    def _commit(self, manager: TransactionManager) -> None:
        try:
            manager.commit()
        except BaseException as failure:
            # The outcome is not known, or was known before a signal handler raised.
            if manager.transactions.state is TransactionState.COMMITTING or self._outcome.is_committed:
                raise
            self._abort(manager)
            if isinstance(failure, OttlaError) and manager.transactions.state is not TransactionState.FATAL:
                message = failure.message.removeprefix(ABORTED)
                raise TransactionAborted(failure.code, f"{ABORTED}{message}", hint=AGAIN) from failure
            raise

    def _abort(self, manager: TransactionManager) -> None:
        """Abort, so that the next one may begin. Raises FencedError if the producer was fenced."""
        self.aborted = not self._outcome.is_committed
        if manager.transactions.state in (TransactionState.OPEN, TransactionState.FAILED):
            try:
                manager.abort()
            except FencedError:
                raise
            except OttlaError as error:
                logger.warning("%s: the transaction has not been aborted yet: %s", manager.id, error)
