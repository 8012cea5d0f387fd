"""Errors of requests about transactions: Kafka's codes, with what to do in words."""

from __future__ import annotations

from typing import Final

from ottla_core.coordination.shard import TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_txn_coordinator.machines.states import TransactionState

_SHOWN: Final = 100
"""How many characters of an id a message shows."""

_WAYS_OUT: Final = {
    TransactionState.EMPTY: "begin a transaction, and add partitions or offsets to it",
    TransactionState.ONGOING: "commit or abort it first",
}
"""What to do about a transaction that is in the wrong state for a request."""


def shown(transactional_id: str) -> str:
    return repr(transactional_id) if len(transactional_id) <= _SHOWN else repr(transactional_id[:_SHOWN]) + "…"


def fenced(transactional_id: str, producer: TransactionProducer, cause: str) -> OttlaError:
    """Return the error. `cause` is what raised the epoch last, as far as is known."""
    return OttlaError(
        ErrorCode.PRODUCER_FENCED,
        f"producer {producer.id} with epoch {producer.epoch} of {shown(transactional_id)} was fenced"
        + (f": {cause}" if cause else ""),
        hint="only the newest producer of a transactional id may continue; close this one",
    )


def other_producer(transactional_id: str, producer: TransactionProducer) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"producer id {producer.id} does not belong to transactional id {shown(transactional_id)}",
        hint="initialize the producer again; an id expires if it is idle for transactional.id.expiration.ms",
    )


def concurrent(transactional_id: str, cause: str) -> OttlaError:
    return OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{shown(transactional_id)}: {cause}", hint="try again")


def wrong_state(transactional_id: str, state: TransactionState, action: str, cause: str = "") -> OttlaError:
    reason = f" ({cause})" if cause else ""
    return OttlaError(
        ErrorCode.INVALID_TXN_STATE,
        f"the transaction of {shown(transactional_id)} is {state.value}{reason} and can't be {action}",
        hint=_WAYS_OUT.get(state, "its outcome can't be changed; begin another transaction"),
    )


def not_in_transaction(transactional_id: str, partition: object) -> OttlaError:
    return OttlaError(
        ErrorCode.TRANSACTION_ABORTABLE,
        f"{partition} is not in the open transaction of {shown(transactional_id)}",
        hint="abort the transaction and begin a new one",
    )


def too_many_partitions(transactional_id: str, most: int) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_REQUEST,
        f"the transaction of {shown(transactional_id)} would have more than {most} partitions",
        hint="end the transaction, and write the rest in another one",
    )


def too_large(transactional_id: str, size_bytes: int, most_bytes: int) -> OttlaError:
    return OttlaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"with these partitions, the transaction of {shown(transactional_id)} takes {size_bytes} bytes in the log, but "
        f"its record may take at most {most_bytes}",
        hint="end the transaction, and write the rest in another one; shorter topic names take less space",
    )


def invalid_timeout(timeout_ms: int, most_ms: int) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        f"a transaction timeout of {timeout_ms} ms is not allowed",
        hint=f"set transaction.timeout.ms to a value from 1 to {most_ms} (transaction.max.timeout.ms)",
    )


def two_phases_disabled() -> OttlaError:
    return OttlaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "two-phase commit is not enabled",
        hint="set transaction_two_phase_commit_enable on the txn-coordinators",
    )
