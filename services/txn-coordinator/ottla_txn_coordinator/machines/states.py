"""The states of a transactional id and every way from one to the next are one table. Nothing else changes a state.

The names are Kafka's. Every state is in the log, so a failure on the way leaves one of them. The diagram in
docs/design/transactions.md is drawn from here (tools/state_diagrams.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


class TransactionEvent(Enum):
    INITIALIZED = "a producer begins, or begins anew"
    ADDED = "a partition or a group's shard is added"
    KEPT = "kept by another producer"
    PREPARED = "prepared for a decision from elsewhere"
    COMMIT = "its producer commits"
    ABORT = "its producer aborts, another one begins, or the timeout is over"
    COMPLETED = "all markers are written"
    REMOVED = "forgotten or expired"


INITIAL: Final[Mapping[str, TransactionState]] = {"first InitProducer": TransactionState.EMPTY}

NEXT: Final[Mapping[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    (TransactionState.EMPTY, TransactionEvent.INITIALIZED): TransactionState.EMPTY,
    (TransactionState.EMPTY, TransactionEvent.ADDED): TransactionState.ONGOING,
    (TransactionState.EMPTY, TransactionEvent.ABORT): TransactionState.COMPLETE_ABORT,
    (TransactionState.EMPTY, TransactionEvent.REMOVED): TransactionState.DEAD,
    (TransactionState.ONGOING, TransactionEvent.ADDED): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionEvent.KEPT): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionEvent.PREPARED): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionEvent.COMMIT): TransactionState.PREPARE_COMMIT,
    (TransactionState.ONGOING, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.PREPARE_COMMIT, TransactionEvent.COMPLETED): TransactionState.COMPLETE_COMMIT,
    (TransactionState.PREPARE_ABORT, TransactionEvent.COMPLETED): TransactionState.COMPLETE_ABORT,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.INITIALIZED): TransactionState.EMPTY,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.ADDED): TransactionState.ONGOING,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.ABORT): TransactionState.COMPLETE_ABORT,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.REMOVED): TransactionState.DEAD,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.INITIALIZED): TransactionState.EMPTY,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.ADDED): TransactionState.ONGOING,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.ABORT): TransactionState.COMPLETE_ABORT,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.REMOVED): TransactionState.DEAD,
}
"""An id that is Dead is in no shard any longer, and the next InitProducer creates it again. An abort without an open
transaction only raises the epoch (KIP-890), so nothing has to be prepared."""

ENDING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""In these states the end is decided, and markers are on their way."""
OPEN: Final = (TransactionState.ONGOING, *ENDING)

COMMITTED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
ABORTED: Final = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
