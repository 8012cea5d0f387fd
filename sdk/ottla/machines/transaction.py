"""A transactional producer's transactions: their states, and the producer's identity in each (KIP-98, KIP-890).

The rules this file owns:

* The coordinator assigns producer id and epoch: at init, and at the end of each transaction for the next one. They
  apply to all partitions, and each partition begins at sequence 0 with them; nothing else begins an epoch. A late batch
  of one transaction therefore can't get into the next one, because a marker has raised the epoch before.
* A batch that finally fails, or is out of order, fails the transaction: it accepts nothing more and can only be
  aborted. INVALID_PRODUCER_EPOCH and PRODUCER_FENCED mean that the epoch is over, but not why: either the coordinator
  has ended the transaction or another producer has started. To find out, the producer requests a new epoch with its old
  identity (KIP-360); a rejection is final.
* After a commit request, the outcome is unknown until the coordinator responds, so only the same request may be
  repeated. Before a commit request, and for an abort at any time, it is safe to drop batches in flight.
* In transactions of version 1, which older clusters of Kafka have, an end does not raise the epoch. The producer then
  requests a new epoch before it begins the next transaction, so that each transaction has its own all the same. And the
  producer has to add each partition to the transaction before it sends anything there.
* A transaction that has sent nothing does not exist for the coordinator, so it needs no end.
* A prepared transaction accepts nothing more, and only a decision ends it: by this producer or by another process.
* Signal handlers raise only where Python calls something. So each method computes first, and then changes the state and
  all that belongs to it by plain assignments.

Not thread-safe: the producer holds one lock over it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple

from ottla.errors import ConfigError, ErrorCode, FencedError, OttlaError, TransactionAborted
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla_core.model import TopicPartition
from ottla_core.records.batch import NO_PRODUCER_ID
from ottla_core.transactions import TRANSACTIONS_V2


class ProducerEpoch(NamedTuple):
    """A transactional producer's identity: its id and epoch."""

    producer_id: int
    epoch: int


NO_EPOCH: Final = ProducerEpoch(NO_PRODUCER_ID, -1)


class Assigned(NamedTuple):
    """A producer's identity in its next transaction, and the version that this transaction has."""

    producer: ProducerEpoch
    version: int = TRANSACTIONS_V2


class PreparedTransaction(NamedTuple):
    """The data that another process needs to end a prepared transaction (`admin.transactions.end`)."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionState(Enum):
    """A producer's state; the values are words for error messages."""

    UNINITIALIZED = "not initialized"
    READY = "between transactions"
    OPEN = "in a transaction"
    FAILED = "in a transaction that can only be aborted"
    PREPARED = "prepared for a decision"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FATAL = "at its end"


class TransactionEvent(Enum):
    """The events of a transaction: the caller's requests and their outcomes."""

    INITIALIZED = "initialize"
    BEGUN = "begin a transaction"
    FAILED = "fail"
    PREPARED = "prepare"
    COMMIT = "commit"
    ABORT = "abort"
    ENDED = "end"
    FATAL = "refuse all"


_S, _E = TransactionState, TransactionEvent

NEXT_STATE: Final = {
    (_S.UNINITIALIZED, _E.INITIALIZED): _S.READY,
    (_S.READY, _E.BEGUN): _S.OPEN,
    (_S.OPEN, _E.FAILED): _S.FAILED,
    (_S.OPEN, _E.PREPARED): _S.PREPARED,
    (_S.OPEN, _E.COMMIT): _S.COMMITTING,
    (_S.OPEN, _E.ABORT): _S.ABORTING,
    (_S.FAILED, _E.FAILED): _S.FAILED,
    (_S.FAILED, _E.ABORT): _S.ABORTING,
    (_S.PREPARED, _E.COMMIT): _S.COMMITTING,
    (_S.PREPARED, _E.ABORT): _S.ABORTING,
    (_S.COMMITTING, _E.COMMIT): _S.COMMITTING,
    (_S.COMMITTING, _E.ENDED): _S.READY,
    (_S.ABORTING, _E.ABORT): _S.ABORTING,
    (_S.ABORTING, _E.ENDED): _S.READY,
    **{(state, _E.FATAL): _S.FATAL for state in _S},
}
"""All legal transitions; any other event is an error of the caller."""

_INSTEAD: Final = {
    _S.UNINITIALIZED: "call init_transactions() first",
    _S.READY: "call begin_transaction() first",
    _S.OPEN: "end it with commit_transaction() or abort_transaction() first",
    _S.FAILED: "call abort_transaction(), then begin another one",
    _S.PREPARED: "end it with commit_transaction() or abort_transaction(), here or elsewhere",
    _S.COMMITTING: "call commit_transaction() again, until its outcome is known",
    _S.ABORTING: "call abort_transaction() again, until it has succeeded",
}

_FATAL: Final = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
_RENEWED: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
)


def wants_new_epoch(code: int) -> bool:
    """Return whether this response code to an end means that the transaction has ended already, so a new epoch is
    needed."""
    return code in _RENEWED


class Transactions:
    """The transactions of one producer, one after the other. `producer` is its identity in the current one.

    `error` is why the transaction or the producer failed. `begun` means that the transaction has sent something, so the
    coordinator may know it. `version` is the version of the current transaction. If the last transaction has ended
    without an epoch for the next one, `used_up` is the epoch of the last one, and `producer` has none until `renew`.
    `outcome` is what is known of the current transaction.
    """

    def __init__(self) -> None:
        self.state = TransactionState.UNINITIALIZED
        self.producer = NO_EPOCH
        self.version = TRANSACTIONS_V2
        self.error: OttlaError | None = None
        self.begun = False
        self.used_up: ProducerEpoch | None = None
        self.outcome = TransactionOutcome()
        self._requested: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()

    def initialize(self, assigned: Assigned) -> None:
        """Note that the coordinator has assigned an epoch, and no transaction of a predecessor is open."""
        state = self._next(TransactionEvent.INITIALIZED)
        self.producer, self.version = assigned
        self.state = state

    @property
    def current(self) -> Assigned:
        """The producer's identity in the current transaction, and the transaction's version."""
        return Assigned(self.producer, self.version)

    @property
    def wants_epoch(self) -> bool:
        """Whether the next transaction can't begin before `renew`."""
        return self.state is TransactionState.READY and self.used_up is not None

    def renew(self, assigned: Assigned) -> None:
        """Note that the coordinator has assigned the epoch of the next transaction."""
        self.producer, self.version = assigned
        self.used_up = None

    def begin(self, outcome: TransactionOutcome | None = None) -> None:
        """Begin the next transaction, which covers every later send. Raises ConfigError and FencedError."""
        state, outcome = self._next(TransactionEvent.BEGUN), outcome or TransactionOutcome()
        self._requested, self._added = set(), set()
        self.error, self.begun = None, False
        self.outcome, self.state = outcome, state
        outcome.is_open = True

    def check_open(self, wish: str = "send") -> None:
        """Raise ConfigError, TransactionAborted or FencedError unless the transaction accepts records and offsets."""
        if self.state is not TransactionState.OPEN:
            raise self._refusal(wish)

    def prepared(self) -> None:
        """Note that the transaction is prepared: the coordinator keeps it open until a decision."""
        self._on(TransactionEvent.PREPARED)

    def fail(self, error: OttlaError) -> None:
        """Fail the open transaction; the first error is kept."""
        if self.state is TransactionState.OPEN:
            self.error = error
            self._on(TransactionEvent.FATAL if error.code in _FATAL else TransactionEvent.FAILED)

    def fail_for_good(self, error: OttlaError) -> None:
        """Note that the producer is unusable from now on."""
        self.error = error
        self._on(TransactionEvent.FATAL)

    @property
    def takes_nothing(self) -> bool:
        """Whether every further send can only fail."""
        return self.state in (TransactionState.FAILED, TransactionState.FATAL)

    def end(self, *, committed: bool) -> bool:
        """Decide the transaction; return whether to notify the coordinator.

        Raises ConfigError, TransactionAborted, FencedError.
        """
        if committed and self.state is TransactionState.OPEN and self.outcome.is_cut_off:
            message = "the block of this transaction was left by an error: it can only be aborted"
            raise ConfigError(ErrorCode.INVALID_TXN_STATE, message, hint="call abort_transaction()")
        self._on(TransactionEvent.COMMIT if committed else TransactionEvent.ABORT)
        return self.begun

    def ended(self, assigned: Assigned | None, *, committed: bool) -> None:
        """Note that the transaction is decided. Without the identity for the next one, `wants_epoch` is set."""
        state = self._next(TransactionEvent.ENDED)
        if assigned is None:
            self.producer, self.used_up = NO_EPOCH, self.producer
        else:
            self.producer, self.version = assigned
            self.used_up = None
        self.outcome.is_committed, self.state = committed, state

    # ---- partitions, in version 1 ------------------------------------------------------------------------------------

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Return whether batches to the partition may leave, because brokers add it or it is part of the
        transaction."""
        return self.version >= TRANSACTIONS_V2 or partition in self._added

    def request(self, partition: TopicPartition) -> bool:
        """Return whether the coordinator still has to be asked to add the partition."""
        if partition in self._requested:
            return False
        self._requested.add(partition)
        self.begun = True
        return True

    def added(self, partitions: Collection[TopicPartition]) -> None:
        """Note that these requested partitions are part of the transaction."""
        self._added.update(partitions)

    def not_added(self, partitions: Collection[TopicPartition]) -> None:
        """Note that the coordinator has to be asked again to add these partitions."""
        self._requested.difference_update(partitions)

    def reason(self) -> TransactionAborted:
        """Return the error for records that fail with the transaction, and for a commit."""
        if self.error is None:
            return TransactionAborted(ErrorCode.TRANSACTION_ABORTABLE, "the record's transaction was aborted")
        message = f"no record of the transaction takes effect: {self.error.message}"
        aborted = TransactionAborted(self.error.code, message, hint=_INSTEAD[_S.FAILED])
        aborted.__cause__ = self.error
        return aborted

    def _on(self, event: TransactionEvent) -> None:
        state = self._next(event)
        is_open = state in (TransactionState.OPEN, TransactionState.FAILED)
        self.state, self.outcome.is_open = state, is_open

    def _next(self, event: TransactionEvent) -> TransactionState:
        state = NEXT_STATE.get((self.state, event))
        if state is None:
            raise self._refusal(event.value)
        return state

    def _refusal(self, wish: str) -> OttlaError:
        if self.state is TransactionState.FATAL and self.error is not None:
            again = FencedError if isinstance(self.error, FencedError) else type(self.error)
            return again(self.error.code, self.error.message, hint=self.error.hint)
        if self.state is TransactionState.FAILED and wish != TransactionEvent.BEGUN.value:
            return self.reason()
        message = f"the producer is {self.state.value}: it can't {wish}"
        return ConfigError(ErrorCode.INVALID_TXN_STATE, message, hint=_INSTEAD.get(self.state, ""))
