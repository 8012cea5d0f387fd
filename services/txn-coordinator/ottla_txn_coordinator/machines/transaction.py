"""One transactional id, and the result of each request. Its states are the table in `states`.

An epoch is raised once by each event that ends a transaction for good: EndTxn of transactions v2 (KIP-890), the
timeout, or a newer producer, which fences the older one (rule 33). So markers and requests that come late never reach
the next transaction (rule 40). The holder of the previous epoch may take the raised one if it did not hear the
response, or was late itself, but not if a newer producer has come. After the last epoch there is a new producer id,
with epoch 0.

All decisions are about durable state. A decision is applied before the next request is decided, and answered once it is
in the log. So a partition that was added is verified at once by the next decision, whatever is being written (rule 41).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry, ShardDecision, TransactionProducer
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_txn_coordinator.machines.ending import ENDS, EndAction, Request, stage_of
from ottla_txn_coordinator.machines.errors import (
    concurrent,
    fenced,
    invalid_timeout,
    not_in_transaction,
    other_producer,
    too_large,
    too_many_partitions,
    two_phases_disabled,
    wrong_state,
)
from ottla_txn_coordinator.machines.history import UNNAMED, Caller, HistoryEvent, Kind
from ottla_txn_coordinator.machines.records import (
    LARGEST_ADDITION_BYTES,
    MOST_PARTITIONS,
    NEVER_MS,
    NO_EPOCH,
    UNCLAIMED,
    TransactionRecord,
    encode_key,
    encode_value,
)
from ottla_txn_coordinator.machines.states import ABORTED, COMMITTED, ENDING, NEXT, TransactionEvent, TransactionState

LAST_EPOCH: Final = 32_766
"""The last epoch of a producer. The marker of its last transaction carries the next epoch, the largest int16."""

NO_TIMEOUT_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    expiry_check_s: float = 3_600.0
    two_phase_commit: bool = False
    first_epoch: int = 0


class Caught(NamedTuple):
    """The transaction of an id as a decision finds it. `record` is None if the id is not known."""

    transactional_id: str
    record: TransactionRecord | None
    cause: str = ""  # what raised its epoch last
    caller: Caller = UNNAMED


class TransactionTimer(NamedTuple):
    """An open transaction has lasted for its timeout."""

    transactional_id: str


class SendMarkers(NamedTuple):
    """An effect: the transaction is decided, as the record says."""

    transactional_id: str
    record: TransactionRecord


class TransactionCompleted(NamedTuple):
    """An effect: all markers are written, and that is noted, this long after the decision."""

    after_ms: int


class ProducerIdNeeded(NamedTuple):
    """Nothing is decided yet, because the decision needs a fresh producer id."""


NEEDS_ID: Final = ProducerIdNeeded()
Decision: TypeAlias = ShardDecision[Any]


# ---- InitProducer ---------------------------------------------------------------------------------------------------


class Init(NamedTuple):
    """`producer` is the one that the caller has, if it has one (KIP-360). With `keeps`, what is open goes on
    (KIP-939)."""

    timeout_ms: int
    producer: TransactionProducer | None = None
    two_phase_commit: bool = False
    keeps: bool = False


class Initialized(NamedTuple):
    """`kept` is the producer whose transaction goes on. `producer` ends it, and may do nothing else before that."""

    producer: TransactionProducer
    kept: TransactionProducer | None = None


def decide_init(
    caught: Caught, init: Init, settings: TransactionSettings, now: Moment, fresh_id: int | None = None
) -> Decision:
    """Initialize a producer. The response is Initialized, or CONCURRENT_TRANSACTIONS as a value if something was
    written, or NEEDS_ID."""
    timeout_ms = _check_timeout(init, settings)
    record = caught.record
    if record is None:
        if fresh_id is None:
            return ShardDecision(NEEDS_ID)
        first = TransactionProducer(fresh_id, settings.first_epoch)
        return _initialized(caught, TransactionRecord(first, timeout_ms, updated_at_ms=now.wall_ms), now)
    is_former = init.producer is not None and _is_former(record, init.producer)
    if init.producer is not None and not is_former:
        check_producer(caught, init.producer)
    if record.state in ENDING:
        raise concurrent(caught.transactional_id, "its last transaction is not over yet")
    if record.state is TransactionState.ONGOING:
        return _keep(caught, record, now, fresh_id) if init.keeps else _abort_former(caught, record, init, now)
    if is_former and record.producer.epoch <= LAST_EPOCH:
        return ShardDecision(Initialized(record.producer))
    former_epoch = NO_EPOCH if init.producer is None else init.producer.epoch
    # The epoch was raised already, and no producer has it, so it is raised only once in all (KAFKA-19367).
    is_free = init.producer is None and record.former_epoch == UNCLAIMED and record.producer.epoch <= LAST_EPOCH
    producer = record.producer if is_free else _raised_once(record.producer, fresh_id)
    if producer is None:
        return ShardDecision(NEEDS_ID)
    changed = replace(
        record,
        producer=producer,
        timeout_ms=timeout_ms,
        state=NEXT[record.state, TransactionEvent.INITIALIZED],
        started_at_ms=NEVER_MS,
        updated_at_ms=now.wall_ms,
        previous_id=_previous_id(record, producer),
        former_epoch=former_epoch,
        version=0,
    )
    return _initialized(caught, changed, now)


def _check_timeout(init: Init, settings: TransactionSettings) -> int:
    if init.two_phase_commit:
        if not settings.two_phase_commit:
            raise two_phases_disabled()
        return NO_TIMEOUT_MS
    if not 0 < init.timeout_ms <= settings.max_timeout_ms:
        raise invalid_timeout(init.timeout_ms, settings.max_timeout_ms)
    return init.timeout_ms


def _initialized(caught: Caught, record: TransactionRecord, now: Moment) -> Decision:
    event = _event(caught, record, now, Kind.INITIALIZED, f"{caught.caller} has initialized a newer producer")
    return _decision(caught, record, Initialized(record.producer), event)


def _keep(caught: Caught, record: TransactionRecord, now: Moment, fresh_id: int | None) -> Decision:
    """Fence the former holder, and keep the transaction with the producer of its batches and its timeout.

    Clients prepare by themselves (KIP-939), so any open transaction may be a prepared one.
    """
    producer = _raised_once(record.holder, fresh_id)
    if producer is None:
        return ShardDecision(NEEDS_ID)
    kept = replace(
        record,
        state=NEXT[record.state, TransactionEvent.KEPT],
        updated_at_ms=now.wall_ms,
        previous_id=_previous_id(record, producer),
        next=producer,
    )
    event = _event(caught, kept, now, Kind.INITIALIZED, f"{caught.caller} has initialized a producer to end it")
    return _decision(caught, kept, Initialized(producer, record.producer), event)


def _abort_former(caught: Caught, record: TransactionRecord, init: Init, now: Moment) -> Decision:
    """Abort the transaction of the producer that had the id before, which may be the caller."""
    if record.prepared:
        raise concurrent(
            caught.transactional_id, "its transaction is prepared: the producer that prepared it has to end it"
        )
    cause = f"{caught.caller} has begun to initialize a newer producer"
    response = concurrent(caught.transactional_id, "the transaction that was open is being aborted")
    aborted = _raised(record, UNCLAIMED if init.producer is None else record.holder.epoch, now)
    return _ending(caught, aborted, response, _event(caught, aborted, now, Kind.FENCED, cause))


# ---- what is in the transaction -------------------------------------------------------------------------------------


def decide_add(
    caught: Caught, producer: TransactionProducer, partitions: Collection[TopicPartition], version: int, now: Moment
) -> Decision:
    record = _not_ending(caught, producer)
    _check_takes_more(caught, record)
    if record.state is TransactionState.ONGOING and record.partitions.issuperset(partitions):
        return ShardDecision(None)
    if len(record.partitions) + len(partitions) > MOST_PARTITIONS:
        raise too_many_partitions(caught.transactional_id, MOST_PARTITIONS)
    begins = record.state is not TransactionState.ONGOING
    changed = replace(
        record,
        state=NEXT[record.state, TransactionEvent.ADDED],
        partitions=record.partitions.union(partitions),
        updated_at_ms=now.wall_ms,
        started_at_ms=now.wall_ms if begins else record.started_at_ms,
        former_epoch=NO_EPOCH,  # a producer that begins has heard the last response
        version=version,
    )
    decision = _decision(caught, changed, None)
    if (size_bytes := size_limit(decision.records)) > LARGEST_ADDITION_BYTES:
        raise too_large(caught.transactional_id, size_bytes, LARGEST_ADDITION_BYTES)
    return replace(decision, timers=timeout_of(caught.transactional_id, changed, now)) if begins else decision


def decide_verify(
    caught: Caught, producer: TransactionProducer, partitions: Collection[TopicPartition], *, by_last_proof: bool
) -> ShardDecision[list[OttlaError | None]]:
    """Return one outcome for each partition. Nothing is added.

    With `by_last_proof`, the verifying broker would know by a marker if a later owner had ended this transaction.
    """
    record = _not_ending(caught, producer)
    _check_takes_more(caught, record)
    held = record.partitions
    outcomes = [None if p in held else not_in_transaction(caught.transactional_id, p) for p in partitions]
    return ShardDecision(outcomes, by_last_proof=by_last_proof and not any(outcomes))


def _check_takes_more(caught: Caught, record: TransactionRecord) -> None:
    if record.prepared or record.next is not None:
        raise wrong_state(caught.transactional_id, record.state, "written to", "prepared")


def _not_ending(caught: Caught, producer: TransactionProducer) -> TransactionRecord:
    """Return the record of that producer. Raises CONCURRENT_TRANSACTIONS while its last transaction ends."""
    record = check_producer(caught, producer)
    if record.state in ENDING:
        raise concurrent(caught.transactional_id, "its last transaction is not over yet")
    return record


def timeout_of(transactional_id: str, record: TransactionRecord, now: Moment) -> dict[TimerKey, float | None]:
    """Return when an open transaction has to end. It counts from the transaction's start, because it may have begun
    under another owner."""
    key = TransactionTimer(transactional_id)
    if record.state is not TransactionState.ONGOING or record.prepared or record.timeout_ms == NO_TIMEOUT_MS:
        return {key: None}
    left_ms = min(record.started_at_ms + record.timeout_ms - now.wall_ms, record.timeout_ms)
    return {key: now.at + max(0, left_ms) / 1000}


# ---- how it ends ----------------------------------------------------------------------------------------------------


class End(NamedTuple):
    """An EndTxn. In `version` 2 of transactions it raises the epoch."""

    producer: TransactionProducer
    committed: bool
    version: int = TRANSACTIONS_V2


def decide_end(caught: Caught, end: End, now: Moment, fresh_id: int | None = None) -> Decision:
    """End a transaction. The response is the producer of the next transaction, or NEEDS_ID."""
    record, request = _known(caught, end.producer), _request(caught, end)
    match ENDS[stage_of(record.state, committed=end.committed), request]:
        case EndAction.REFUSE:
            raise _wrong_end(caught, record, end)
        case EndAction.WAIT:
            raise concurrent(caught.transactional_id, "its last transaction is not over yet")
        case EndAction.ANSWER:
            return ShardDecision(record.producer if request is Request.OLD else record.holder)
        case EndAction.RAISE | EndAction.END as action:
            return _end(caught, record, end, now, fresh_id, is_open=action is EndAction.END)


def _request(caught: Caught, end: End) -> Request:
    """Return the kind of the request. Raises PRODUCER_FENCED or INVALID_PRODUCER_ID_MAPPING if the transactional id has
    another producer."""
    if end.version >= TRANSACTIONS_V2 and _is_repeat(_known(caught, end.producer), end.producer):
        return Request.REPEAT
    check_producer(caught, end.producer)
    if end.version < TRANSACTIONS_V2:
        return Request.OLD
    return Request.COMMIT if end.committed else Request.ABORT


def _end(
    caught: Caught, record: TransactionRecord, end: End, now: Moment, fresh_id: int | None, *, is_open: bool
) -> Decision:
    if end.version < TRANSACTIONS_V2:
        record = replace(record, former_epoch=NO_EPOCH, version=end.version)
    elif (holder := _raised_once(record.holder, fresh_id)) is None:
        return ShardDecision(NEEDS_ID)
    else:
        record = _with_epoch_raised(record, record.holder.epoch, holder)
    event = TransactionEvent.COMMIT if end.committed else TransactionEvent.ABORT
    ended = replace(record, state=NEXT[record.state, event], updated_at_ms=now.wall_ms, prepared=False)
    noted = _event(caught, ended, now, Kind.COMMITTED if end.committed else Kind.ABORTED)
    if is_open:
        return _ending(caught, ended, ended.holder, noted)
    ended = _without_transaction(ended)
    return _decision(caught, ended, ended.producer, noted)


def _wrong_end(caught: Caught, record: TransactionRecord, end: End) -> OttlaError:
    action = "committed" if end.committed else "aborted"
    return wrong_state(caught.transactional_id, record.state, action, caught.cause if record.state in ABORTED else "")


def decide_timeout(caught: Caught, now: Moment) -> Decision:
    """End a transaction by timeout. Its producer may take the raised epoch if it comes back."""
    record = caught.record
    if record is None or record.state is not TransactionState.ONGOING or record.prepared:
        return ShardDecision(None)
    aborted = _raised(record, record.holder.epoch, now)
    cause = f"its transaction was open for longer than transaction.timeout.ms={record.timeout_ms}"
    return _ending(caught, aborted, None, _event(caught, aborted, now, Kind.TIMED_OUT, cause))


def decide_complete(caught: Caught, of: TransactionRecord, now: Moment) -> Decision:
    """Note that all markers are written that were due by the record `of`. A repeat changes nothing."""
    if caught.record != of:  # before v2 the next transaction has the same producer
        return ShardDecision(None)
    completed = replace(of, state=NEXT[of.state, TransactionEvent.COMPLETED], updated_at_ms=now.wall_ms)
    took = TransactionCompleted(max(0, now.wall_ms - of.updated_at_ms))
    return _decision(caught, _without_transaction(completed), None, took)


# ---- two phases -----------------------------------------------------------------------------------------------------


def decide_prepare(
    caught: Caught, producer: TransactionProducer, settings: TransactionSettings, now: Moment
) -> Decision:
    if not settings.two_phase_commit:
        raise two_phases_disabled()
    record = _not_ending(caught, producer)
    if record.state is not TransactionState.ONGOING:
        raise wrong_state(caught.transactional_id, record.state, "prepared")
    if record.prepared:
        return ShardDecision(None)
    state = NEXT[record.state, TransactionEvent.PREPARED]
    prepared = replace(record, state=state, prepared=True, updated_at_ms=now.wall_ms)
    decision = _decision(caught, prepared, None, _event(caught, prepared, now, Kind.PREPARED))
    return replace(decision, timers=timeout_of(caught.transactional_id, prepared, now))


def decide_forget(caught: Caught, producer: TransactionProducer, settings: TransactionSettings) -> Decision:
    if not settings.two_phase_commit:
        raise two_phases_disabled()
    if caught.record is None:
        return ShardDecision(None)  # a repeat
    record = _not_ending(caught, producer)
    if (record.state, TransactionEvent.REMOVED) not in NEXT:
        raise wrong_state(caught.transactional_id, record.state, "forgotten")
    return ShardDecision(None, (Entry(encode_key(caught.transactional_id), None),))


# ---- producers and epochs -------------------------------------------------------------------------------------------


def check_producer(caught: Caught, producer: TransactionProducer) -> TransactionRecord:
    """Return the record if that is its producer. Raises INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED."""
    record = _known(caught, producer)
    if producer == record.holder:
        return record
    if producer.id not in (record.producer.id, record.holder.id, record.previous_id):
        raise other_producer(caught.transactional_id, producer)
    raise fenced(caught.transactional_id, producer, caught.cause)


def _known(caught: Caught, producer: TransactionProducer) -> TransactionRecord:
    if caught.record is None:
        raise other_producer(caught.transactional_id, producer)
    return caught.record


def _is_former(record: TransactionRecord, producer: TransactionProducer) -> bool:
    """Return whether the producer may take the epoch of the record, because it had the epoch before that."""
    has_id = producer.id == (record.previous_id if record.holder.epoch == 0 else record.holder.id)
    return has_id and producer.epoch == record.former_epoch >= 0


def _is_repeat(record: TransactionRecord, producer: TransactionProducer) -> bool:
    """Return whether the producer has ended the last transaction, or let it time out, and can go on after it."""
    is_over = record.state in COMMITTED or record.state in ABORTED
    return is_over and _is_former(record, producer) and record.holder.epoch <= LAST_EPOCH


def _raised_once(producer: TransactionProducer, fresh_id: int | None) -> TransactionProducer | None:
    """Return the producer with the next epoch. After the last epoch it has another id. Return None if there is no fresh
    id yet."""
    if producer.epoch < LAST_EPOCH:
        return producer._replace(epoch=producer.epoch + 1)
    return None if fresh_id is None else TransactionProducer(fresh_id, 0)


def _previous_id(record: TransactionRecord, holder: TransactionProducer) -> int:
    """Return the producer id of the former holder, if the new holder has a different id."""
    return record.previous_id if holder.id == record.holder.id else record.holder.id


def _raised(record: TransactionRecord, former_epoch: int, now: Moment) -> TransactionRecord:
    """Return the record after an abort by the coordinator. No other id is needed, because an InitProducer comes
    next."""
    aborted = replace(
        record, state=NEXT[record.state, TransactionEvent.ABORT], updated_at_ms=now.wall_ms, prepared=False
    )
    return _with_epoch_raised(aborted, former_epoch, record.holder._replace(epoch=record.holder.epoch + 1))


def _with_epoch_raised(record: TransactionRecord, former_epoch: int, holder: TransactionProducer) -> TransactionRecord:
    """Raise the epoch for the markers, and for the `holder`, which goes on after them."""
    producer = record.producer._replace(epoch=record.producer.epoch + 1)
    return replace(
        record,
        producer=producer,
        previous_id=_previous_id(record, holder),
        next=None if holder == producer else holder,
        former_epoch=former_epoch,
        version=TRANSACTIONS_V2,
    )


def _without_transaction(record: TransactionRecord) -> TransactionRecord:
    """Return an ended transaction's record, with its next producer. It keeps its start until the next one begins."""
    return replace(record, producer=record.holder, partitions=frozenset(), next=None)


# ---- decisions ------------------------------------------------------------------------------------------------------


def _ending(caught: Caught, record: TransactionRecord, response: Any, event: HistoryEvent) -> Decision:
    decision = _decision(caught, record, response, event, SendMarkers(caught.transactional_id, record))
    return replace(decision, timers={TransactionTimer(caught.transactional_id): None})


def _decision(caught: Caught, record: TransactionRecord, response: Any, *effects: Any) -> Decision:
    entry = Entry(encode_key(caught.transactional_id), encode_value(record))
    memory = tuple(effect for effect in effects if isinstance(effect, HistoryEvent))
    return ShardDecision(response, (entry,), memory, effects=effects)


def _event(caught: Caught, record: TransactionRecord, now: Moment, kind: Kind, cause: str = "") -> HistoryEvent:
    return HistoryEvent(caught.transactional_id, now.wall_ms, kind, record.holder, caught.caller, cause)
