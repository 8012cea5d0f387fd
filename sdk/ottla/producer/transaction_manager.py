"""Carries out a producer's transactions: the machine decides (ottla.machines.transaction), this calls the coordinator.

The sender's lock guards the machine; it is also held while records are appended and responses entered. A second lock is
held throughout a call, so that only one thread at a time ends a transaction. Every wait has a deadline.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, Final, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.coordinators import TRY_S
from ottla.client.guard import Guard
from ottla.client.offsets import GroupMetadata, Offsets
from ottla.errors import DeliveryError, ErrorCode, FencedError, OttlaError, TransactionAborted, error_from_code
from ottla.machines.failures import not_committed, not_flushed
from ottla.machines.membership import Meaning, meaning_of
from ottla.machines.requests import Reported
from ottla.machines.transaction import (
    Assigned,
    PreparedTransaction,
    ProducerEpoch,
    TransactionState,
    wants_new_epoch,
)
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.machines.transactional_accumulator import TransactionalAccumulator
from ottla.producer.delivery import Announcer
from ottla.producer.options import ProducerOptions
from ottla.producer.partition_adder import PartitionAdder
from ottla.producer.sender import Sender
from ottla.producer.txn_client import TxnClient
from ottla_core.model import TopicPartition
from ottla_core.transactions import TRANSACTIONS_V2

T = TypeVar("T")

logger = logging.getLogger("ottla.producer")

ABORTED: Final = "the transaction was not committed: "
AGAIN: Final = "repeat the work in another transaction"


class TransactionManager:
    """The transactions of one producer. Raises the machine's errors, and ottla.TimeoutError if a coordinator does not
    answer."""

    def __init__(
        self,
        options: ProducerOptions,
        cluster: ClusterClient,
        sender: Sender,
        accumulator: TransactionalAccumulator,
        announcer: Announcer,
    ) -> None:
        self.transactions: Final = accumulator.transactions
        self.id: Final = options.transactional_id
        self.turn: Final = RLock()
        self._client: Final = TxnClient(cluster, self.id, options.transaction_timeout_ms)
        self._clock: Final = cluster.clock
        self._block_s: Final = options.max_block_s
        self._flush_s: Final = options.limits.delivery_timeout_s + options.request_timeout_s
        self._sender: Final = sender
        self._accumulator: Final = accumulator
        self._announcer: Final = announcer
        self._adder: Final = PartitionAdder(cluster.clock, self._add_partitions, self._on_added, self._on_not_added)
        sender.add_partitions = self._request_partitions

    def init(self) -> None:
        """Become the producer of the id: fence the previous producer and abort its open transaction."""
        self._in_turn(self._block_s, self._init)

    def _init(self) -> None:
        if self.transactions.state is TransactionState.UNINITIALIZED:
            assigned = self._client.init(None, timeout=self._block_s)
            with self._sender.lock:
                self.transactions.initialize(assigned)
        else:
            self.transactions.initialize(self.transactions.current)  # raises on a second call

    def begin(self, outcome: TransactionOutcome | None = None) -> None:
        """Begin the next transaction. In version 1 this requests a new epoch, if another transaction has ended before.

        Raises the errors of `Transactions.begin`, and FencedError or ottla.TimeoutError.
        """
        if self.transactions.wants_epoch:
            self._in_turn(self._block_s, self._renew)
        with self._sender.lock:
            self.transactions.begin(outcome)

    def _renew(self) -> None:
        if (used_up := self.transactions.used_up) is not None:  # no other thread was faster
            assigned = self._renewed(used_up, self._block_s)
            with self._sender.lock:
                self.transactions.renew(assigned)

    def withdraw(self, outcome: TransactionOutcome) -> None:
        """Abort the transaction that `begin` began with `outcome`, if it did: the caller has not come to use it."""
        if outcome.is_open:
            with contextlib.suppress(OttlaError):  # the next block, or a close, tries again
                self.abort()

    def send_offsets(self, group: GroupMetadata, offsets: Offsets) -> None:
        """Commit a group's offsets with the transaction. If that fails, the transaction has failed."""
        self._in_turn(self._block_s, self._send_offsets, group, offsets)

    def _send_offsets(self, group: GroupMetadata, offsets: Offsets) -> None:
        with self._sender.lock:
            self.transactions.check_open()
            self.transactions.begun = self.transactions.begun or bool(offsets)
            current = self.transactions.current
        if not offsets:
            return
        try:
            self._client.commit_offsets(current, group, offsets, timeout=self._block_s)
        except BaseException as error:
            failure = error if isinstance(error, OttlaError) else _interrupted(error)
            if meaning_of(failure.code) is Meaning.LOST:
                failure = not_committed(group.group, failure, "")
            elif wants_new_epoch(failure.code):  # the coordinator has ended the transaction, or forgotten the id
                failure = TransactionAborted(failure.code, f"{ABORTED}{failure.message}", hint=AGAIN)
            with self._sender.lock:
                self.transactions.fail(failure)
                self._sender.wake()
            if isinstance(error, OttlaError):
                raise failure from error
            raise

    def commit(self) -> None:
        """Wait for every send, and commit. Raises TransactionAborted if that is impossible."""
        self._in_turn(self._flush_s, self._commit)

    def _commit(self) -> None:
        self._flush()
        self._end(committed=True, timeout=self._block_s)

    def prepare(self) -> PreparedTransaction | None:
        """Wait for every send, and keep the transaction open for the holder of the result; None if nothing was sent."""
        return self._in_turn(self._flush_s, self._prepare)

    def _prepare(self) -> PreparedTransaction | None:
        self._flush()
        with self._sender.lock:
            self.transactions.check_open("prepare")
            if not self.transactions.begun:
                return None
            producer = self.transactions.producer
        try:
            self._client.prepare(producer, timeout=self._block_s)
        except OttlaError as error:
            # Clusters of Kafka have no such call, so nothing has happened.
            if error.retriable or error.code == ErrorCode.UNSUPPORTED_VERSION:
                raise
            cause = self._client.explain(producer) or error.message
            with self._sender.lock:
                self.transactions.fail(error_from_code(error.code, cause, hint=error.hint))
                self.transactions.check_open()  # raises
        with self._sender.lock:
            self.transactions.prepared()
        return PreparedTransaction(self.id, producer.producer_id, producer.epoch)

    def abort(self) -> None:
        """Drop the records that are left, and abort. Raises FencedError if another producer has fenced this one."""
        self._in_turn(self._block_s, self._end, committed=False, timeout=self._block_s)

    def close(self, timeout: float) -> None:
        """Abort an open transaction within `timeout` seconds; if that fails, the coordinator aborts it later."""
        state = self.transactions.state
        if state in (
            TransactionState.UNINITIALIZED,
            TransactionState.READY,
            TransactionState.PREPARED,
            TransactionState.FATAL,
        ):
            return
        try:
            self._in_turn(timeout, self._end, committed=state is TransactionState.COMMITTING, timeout=timeout)
        except OttlaError as error:
            logger.warning("%s: the coordinator will have to end the open transaction: %s", self.id, error)

    def _flush(self) -> None:
        deadline_at = self._clock.monotonic() + self._flush_s
        while self._is_under_way():
            if not self._sender.flush(deadline_at - self._clock.monotonic()):
                raise not_flushed(len(self._accumulator.incomplete))
            self._sender.check()

    def _is_under_way(self) -> bool:
        with self._sender.lock:
            return self.transactions.state is TransactionState.OPEN and bool(self._accumulator.incomplete)

    def _end(self, *, committed: bool, timeout: float) -> None:
        until = self._clock.monotonic() + timeout
        current, needed = self._decide(committed=committed)
        assigned: Assigned | None = current
        failure: OttlaError | None = None
        if needed:
            self._settle(current, until)
            try:
                assigned = self._client.end(current, committed=committed, timeout=self._left(until))
            except OttlaError as error:
                if error.retriable:
                    raise
                cause = self._client.explain(current.producer) or error.message
                failure = TransactionAborted(error.code, f"{ABORTED}{cause}", hint=AGAIN)
                if committed and error.code == ErrorCode.TRANSACTION_ABORTABLE:
                    assigned = self._client.end(current, committed=False, timeout=self._left(until))
                elif wants_new_epoch(error.code):  # the coordinator may have ended it on its own
                    assigned = self._renewed(current.producer, self._left(until))
                else:
                    raise self._at_its_end(error) from None
        with self._sender.lock:
            self.transactions.ended(assigned, committed=committed and failure is None)
        if committed and failure is not None:
            raise failure

    def _decide(self, *, committed: bool) -> tuple[Assigned, bool]:
        """Return the transaction's producer, and whether the coordinator has to be called."""
        with self._sender.lock:
            needed = self.transactions.end(committed=committed)
            if not committed:
                self._accumulator.abort(self.transactions.reason())
            dropped = [batch for batch in self._accumulator.incomplete if batch.settled]
        self._sender.announce(dropped)  # including those of an interrupted abort
        with contextlib.suppress(DeliveryError):
            self._announcer.raise_failures()  # the transaction reports them
        return self.transactions.current, needed

    def _settle(self, current: Assigned, until: float) -> None:
        """Wait for requests that are under way, if the end does not raise the epoch. They might otherwise count for the
        next transaction, or begin one that nobody ends."""
        if current.version >= TRANSACTIONS_V2:
            return
        if not self._adder.stop(self._left(until)) or not self._sender.wait_for_brokers(self._left(until)):
            raise error_from_code(
                ErrorCode.REQUEST_TIMED_OUT,
                "the transaction has not been ended yet: some of its requests have had no response so far",
                hint="try again; check that the brokers respond",
            )

    def _renewed(self, producer: ProducerEpoch, timeout: float) -> Assigned:
        """Return an epoch for the next transaction. Raises FencedError if there is another producer."""
        try:
            return self._client.init(producer, timeout=timeout)
        except OttlaError as error:
            if error.retriable:
                raise
            if not wants_new_epoch(error.code):
                raise self._at_its_end(error) from None
            fenced = FencedError(
                error.code,
                f"another producer has started with transactional_id={self.id!r}{self._fenced_by(producer, error)}",
                hint="close this producer; use a different transactional_id for each producer",
            )
            raise self._at_its_end(fenced) from None

    def _fenced_by(self, producer: ProducerEpoch, error: OttlaError) -> str:
        if explained := self._client.explain(producer):
            return f": {explained}"
        # Kafka's coordinators do not say which of the two it was.
        return f", or its last transaction took longer than transaction_timeout: {error.message}"

    def _at_its_end(self, error: OttlaError) -> OttlaError:
        """Note that the producer is unusable, and return the error to raise."""
        with self._sender.lock:
            self.transactions.fail_for_good(error)
        return error

    def _left(self, until: float) -> float:
        return max(0.001, until - self._clock.monotonic())

    # ---- partitions, in version 1 ------------------------------------------------------------------------------------

    def _request_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        self._adder.request(self.transactions.current, partitions)

    def _add_partitions(self, current: Assigned, partitions: Sequence[TopicPartition]) -> None:
        self._client.add_partitions(current, partitions, timeout=TRY_S)

    def _on_added(self, partitions: Sequence[TopicPartition]) -> None:
        with self._sender.lock:
            self.transactions.added(partitions)
            self._sender.wake()

    def _on_not_added(self, partitions: Sequence[TopicPartition], error: OttlaError) -> None:
        refused = Reported()
        with self._sender.lock:
            if error.retriable:
                self.transactions.not_added(partitions)
            elif isinstance(error.about, TopicPartition):
                # The records for this partition fail with this error. All others fail because the transaction does.
                refused = self._accumulator.refuse(error.about, error)
            else:
                self.transactions.fail(error)
            self._sender.wake()
        self._sender.announce(refused.settled)

    def _in_turn(self, wait_s: float, call: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Make the call once no other thread makes one. Raises ottla.TimeoutError after `wait_s` seconds."""
        try:
            # Within the block, because a signal handler may raise right behind it: it has to be released then.
            if not self.turn.acquire(timeout=max(0.0, wait_s)):
                raise error_from_code(
                    ErrorCode.REQUEST_TIMED_OUT, f"another thread did not end the transaction within {wait_s:g} s"
                )
            return call(*arguments, **named)
        finally:
            try:  # noqa: SIM105  # nothing but the release may come first here
                self.turn.release()
            except RuntimeError:  # it does not have the turn
                pass


def _interrupted(error: BaseException) -> OttlaError:
    return error_from_code(ErrorCode.TRANSACTION_ABORTABLE, f"offsets may be missing from the transaction: {error!r}")


def manager_of(
    options: ProducerOptions, cluster: ClusterClient, sender: Sender, announcer: Announcer, guard: Guard
) -> TransactionManager | None:
    """Return the manager of a transactional producer, None for any other."""
    if not isinstance(sender.accumulator, TransactionalAccumulator):
        return None
    manager = TransactionManager(options, cluster, sender, sender.accumulator, announcer)
    guard.watch(manager.turn)
    return manager
