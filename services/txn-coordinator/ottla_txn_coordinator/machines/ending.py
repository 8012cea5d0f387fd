"""The outcome of a request to end a transaction is one cell of a table, for each way in which the two can meet.

A client that hears nothing of its commit sends it again, and can't know whether the first request was carried out. The
coordinator must not end the next transaction by a repeat of the last end, and must not tell a client that something was
committed that was aborted. So the response depends on how far the last transaction is, and on which request this is.

Version 2 of transactions raises the producer's epoch with each end (KIP-890, rule 40: a delayed request can't touch the
next transaction). So a request in the epoch before is known to be a repeat. An abort is of use even if no transaction
is open: it raises the epoch, and so fences batches that are still on their way. In versions 0 and 1 a repeat and a new
request look alike, so only the stage distinguishes them.

docs/design/transactions.md shows the table, which is drawn from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from ottla_txn_coordinator.machines.states import ABORTED, COMMITTED, ENDING, TransactionState


class Stage(Enum):
    """How far the producer's last transaction is, seen from the request."""

    OPEN = "open"
    ENDING_SO = "ending, as requested"
    ENDING_OTHERWISE = "ending, the other way"
    ENDED_SO = "ended, as requested"
    ENDED_OTHERWISE = "ended, the other way"
    NONE = "there is none"


class Request(Enum):
    OLD = "any end, in version 0 or 1"
    COMMIT = "a commit, in version 2"
    ABORT = "an abort, in version 2"
    REPEAT = "any end in the epoch before, in version 2"


class EndAction(Enum):
    END = "write the decision, then the markers"
    RAISE = "raise the epoch, because there is nothing to end"
    ANSWER = "respond as to the first request"
    WAIT = "CONCURRENT_TRANSACTIONS: the producer tries again"
    REFUSE = "INVALID_TXN_STATE"


ENDS: Final[Mapping[tuple[Stage, Request], EndAction]] = MappingProxyType(
    {
        # There is something to end. In version 2 a repeat can't meet this stage, because its epoch is over.
        (Stage.OPEN, Request.OLD): EndAction.END,
        (Stage.OPEN, Request.COMMIT): EndAction.END,
        (Stage.OPEN, Request.ABORT): EndAction.END,
        # The decision is durable, and its markers are on their way. A repeat gets its response, because nothing can
        # revert PrepareCommit (rule 35). Any other request waits for the markers.
        (Stage.ENDING_SO, Request.OLD): EndAction.WAIT,
        (Stage.ENDING_SO, Request.COMMIT): EndAction.WAIT,
        (Stage.ENDING_SO, Request.ABORT): EndAction.WAIT,
        (Stage.ENDING_SO, Request.REPEAT): EndAction.ANSWER,
        # The client wants the opposite of what was decided. Waiting helps only a request of the next epoch, which is
        # about the transaction after this one.
        (Stage.ENDING_OTHERWISE, Request.OLD): EndAction.REFUSE,
        (Stage.ENDING_OTHERWISE, Request.COMMIT): EndAction.WAIT,
        (Stage.ENDING_OTHERWISE, Request.ABORT): EndAction.WAIT,
        (Stage.ENDING_OTHERWISE, Request.REPEAT): EndAction.REFUSE,
        # In versions 0 and 1 this is taken for a repeat. In version 2 a commit in the new epoch has no transaction.
        (Stage.ENDED_SO, Request.OLD): EndAction.ANSWER,
        (Stage.ENDED_SO, Request.COMMIT): EndAction.REFUSE,
        (Stage.ENDED_SO, Request.ABORT): EndAction.RAISE,
        (Stage.ENDED_SO, Request.REPEAT): EndAction.ANSWER,
        (Stage.ENDED_OTHERWISE, Request.OLD): EndAction.REFUSE,
        (Stage.ENDED_OTHERWISE, Request.COMMIT): EndAction.REFUSE,
        (Stage.ENDED_OTHERWISE, Request.ABORT): EndAction.RAISE,
        (Stage.ENDED_OTHERWISE, Request.REPEAT): EndAction.REFUSE,
        (Stage.NONE, Request.OLD): EndAction.REFUSE,
        (Stage.NONE, Request.COMMIT): EndAction.REFUSE,
        (Stage.NONE, Request.ABORT): EndAction.RAISE,
    }
)
"""A repeat does not meet an open transaction or none: the epoch check has fenced its producer before."""


def stage_of(state: TransactionState, *, committed: bool) -> Stage:
    """Return how far the producer's last transaction is. `committed` says that the request is to commit."""
    if state is TransactionState.ONGOING:
        return Stage.OPEN
    if state not in (*COMMITTED, *ABORTED):
        return Stage.NONE
    is_as_requested = state in (COMMITTED if committed else ABORTED)
    if state in ENDING:
        return Stage.ENDING_SO if is_as_requested else Stage.ENDING_OTHERWISE
    return Stage.ENDED_SO if is_as_requested else Stage.ENDED_OTHERWISE
