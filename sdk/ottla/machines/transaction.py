"""A transactional producer's transactions: their states, and who the producer is in each of them (KIP-98, KIP-890).

The rules this file owns:

* Producer id and epoch are the coordinator's to give: at init, and with the end of each transaction for the next one.
  They are of all partitions, each of which begins at sequence 0 in them; nothing else begins an epoch. So what is late
  of one transaction can't get into the next: a marker has raised the epoch before.
* What fails for good, or is out of order, lets the transaction fail: it takes nothing more, and can only be aborted.
  INVALID_PRODUCER_EPOCH and PRODUCER_FENCED say that the epoch is over, and not why: the coordinator has ended the
  transaction, or another producer has come. Whether this one may go on is the coordinator's to say when it is asked for
  a new epoch, by who had the old one (KIP-360): a refusal is final.
* Once the coordinator was asked to commit, the outcome is not known before it answers: only the same again may be
  asked. Before that, and always to abort, it is safe to let go of what is under way.
* A transaction of which nothing has left is none: there is nothing to end.
* One that is prepared takes nothing more, and nothing ends it but a decision: this producer's, or another process's.

Not thread-safe: the producer holds one lock over it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from ottla.errors import ConfigError, ErrorCode, FencedError, OttlaError, TransactionAborted
from ottla_core.records.batch import NO_PRODUCER_ID


class ProducerEpoch(NamedTuple):
    """A transactional producer's identity: its id and epoch."""

    producer_id: int
    epoch: int


NO_EPOCH: Final = ProducerEpoch(NO_PRODUCER_ID, -1)


class PreparedTransaction(NamedTuple):
    """All that another process needs to end it: `admin.transactions.end`."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionState(Enum):
    """A producer's state, in words for errors."""

    UNINITIALIZED = "not initialized"
    READY = "between transactions"
    OPEN = "in a transaction"
    FAILED = "in a transaction that can only be aborted"
    PREPARED = "prepared for a decision"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FATAL = "at its end"


class TransactionEvent(Enum):
    """What happens to it: the caller's wishes, and what came of them."""

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
"""All that may happen, and what it leads to; anything else is an error of the caller."""

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
    """Whether a transaction whose end is answered with this code has ended otherwise: ask who the producer is now."""
    return code in _RENEWED


class Transactions:
    """One producer's, one after the other. `producer` is who it is in the current one.

    `error` is why the transaction failed, or the producer; `begun`: something of the transaction has left, so that the
    coordinator may know of it.
    """

    def __init__(self) -> None:
        self.state = TransactionState.UNINITIALIZED
        self.producer = NO_EPOCH
        self.error: OttlaError | None = None
        self.begun = False

    def initialize(self, producer: ProducerEpoch) -> None:
        """The coordinator has given it an epoch, and nothing of its predecessors is open."""
        self._on(TransactionEvent.INITIALIZED)
        self.producer = producer

    def begin(self) -> None:
        """From now on, what is sent is of the next transaction. Raises ConfigError and FencedError."""
        self._on(TransactionEvent.BEGUN)
        self.error, self.begun = None, False

    def check_open(self, wish: str = "send") -> None:
        """Raise unless it takes records and offsets: ConfigError, TransactionAborted or FencedError."""
        if self.state is not TransactionState.OPEN:
            raise self._refusal(wish)

    def prepared(self) -> None:
        """The coordinator keeps it open until it is decided."""
        self._on(TransactionEvent.PREPARED)

    def fail(self, error: OttlaError) -> None:
        """Something of the open transaction has failed for good; the first reason stays."""
        if self.state is TransactionState.OPEN:
            self.error = error
            self._on(TransactionEvent.FATAL if error.code in _FATAL else TransactionEvent.FAILED)

    def fail_for_good(self, error: OttlaError) -> None:
        """The producer is of no use any more."""
        self.error = error
        self._on(TransactionEvent.FATAL)

    @property
    def takes_nothing(self) -> bool:
        """Whether what is still to be sent can only fail."""
        return self.state in (TransactionState.FAILED, TransactionState.FATAL)

    def end(self, *, committed: bool) -> bool:
        """Decide; whether the coordinator has to hear of it. Raises ConfigError, TransactionAborted and FencedError."""
        self._on(TransactionEvent.COMMIT if committed else TransactionEvent.ABORT)
        return self.begun

    def ended(self, producer: ProducerEpoch) -> None:
        """It is decided, and `producer` is who writes the next one."""
        self._on(TransactionEvent.ENDED)
        self.producer = producer

    def reason(self) -> TransactionAborted:
        """For what goes down with the transaction, and for a commit."""
        if self.error is None:
            return TransactionAborted(ErrorCode.TRANSACTION_ABORTABLE, "the transaction of the record was aborted")
        message = f"nothing of the transaction counts: {self.error.message}"
        aborted = TransactionAborted(self.error.code, message, hint=_INSTEAD[_S.FAILED])
        aborted.__cause__ = self.error
        return aborted

    def _on(self, event: TransactionEvent) -> None:
        state = NEXT_STATE.get((self.state, event))
        if state is None:
            raise self._refusal(event.value)
        self.state = state

    def _refusal(self, wish: str) -> OttlaError:
        if self.state is TransactionState.FATAL and self.error is not None:
            again = FencedError if isinstance(self.error, FencedError) else type(self.error)
            return again(self.error.code, self.error.message, hint=self.error.hint)
        if self.state is TransactionState.FAILED and wish != TransactionEvent.BEGUN.value:
            return self.reason()
        message = f"the producer is {self.state.value}: it can't {wish}"
        return ConfigError(ErrorCode.INVALID_TXN_STATE, message, hint=_INSTEAD.get(self.state, ""))
