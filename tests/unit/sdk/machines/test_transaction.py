"""The table of a transactional producer: rows are taken, all else is refused; by property, the epoch of every batch."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ConfigError, ErrorCode, FencedError, OttlaError, TransactionAborted, error_from_code
from ottla.machines.batches import BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.metadata import Route
from ottla.machines.requests import OutgoingRequest
from ottla.machines.transaction import (
    NEXT_STATE,
    Assigned,
    ProducerEpoch,
    TransactionEvent,
    Transactions,
    TransactionState,
)
from ottla.machines.transactional_accumulator import TransactionalAccumulator
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import TRANSACTIONAL, read_header
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2

FIRST = ProducerEpoch(7, 0)
PARTITIONS = [TopicPartition("t", n) for n in range(3)]
ROUTES = {p: Route(PartitionId(TopicId(b"t" * 16), p.partition), "b0:1", 5) for p in PARTITIONS}
TOO_LARGE = error_from_code(ErrorCode.MESSAGE_TOO_LARGE, "too large")
FENCED = FencedError(ErrorCode.PRODUCER_FENCED, "another one has come", hint="close it")

S = TransactionState
PATHS: dict[TransactionState, list[Callable[[Transactions], object]]] = {
    S.UNINITIALIZED: [],
    S.READY: [lambda t: t.initialize(Assigned(FIRST))],
    S.OPEN: [lambda t: t.initialize(Assigned(FIRST)), Transactions.begin],
    S.FAILED: [lambda t: t.initialize(Assigned(FIRST)), Transactions.begin, lambda t: t.fail(TOO_LARGE)],
    S.PREPARED: [lambda t: t.initialize(Assigned(FIRST)), Transactions.begin, Transactions.prepared],
    S.COMMITTING: [lambda t: t.initialize(Assigned(FIRST)), Transactions.begin, lambda t: t.end(committed=True)],
    S.ABORTING: [lambda t: t.initialize(Assigned(FIRST)), Transactions.begin, lambda t: t.end(committed=False)],
    S.FATAL: [lambda t: t.fail_for_good(FENCED)],
}
EVENTS: dict[TransactionEvent, Callable[[Transactions], object]] = {
    TransactionEvent.INITIALIZED: lambda t: t.initialize(Assigned(FIRST)),
    TransactionEvent.BEGUN: Transactions.begin,
    TransactionEvent.PREPARED: Transactions.prepared,
    TransactionEvent.COMMIT: lambda t: t.end(committed=True),
    TransactionEvent.ABORT: lambda t: t.end(committed=False),
    TransactionEvent.ENDED: lambda t: t.ended(Assigned(ProducerEpoch(7, 1)), committed=True),
    TransactionEvent.FATAL: lambda t: t.fail_for_good(FENCED),
}


def in_state(state: TransactionState, transactions: Transactions | None = None) -> Transactions:
    transactions = transactions or Transactions()
    for step in PATHS[state]:
        step(transactions)
    assert transactions.state is state
    return transactions


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, EVENTS)))
def test_a_row_is_taken_and_everything_else_refused(state: TransactionState, event: TransactionEvent) -> None:
    transactions = in_state(state)
    if (state, event) in NEXT_STATE:
        EVENTS[event](transactions)
        assert transactions.state is NEXT_STATE[state, event]
        return
    with pytest.raises(OttlaError) as refused:
        EVENTS[event](transactions)
    assert transactions.state is state
    assert refused.value.hint
    kinds = {S.FATAL: FencedError, S.FAILED: ConfigError if event is TransactionEvent.BEGUN else TransactionAborted}
    assert type(refused.value) is kinds.get(state, ConfigError)


@pytest.mark.parametrize("state", [state for state in S if state is not S.OPEN])
def test_records_are_taken_in_an_open_transaction_alone(state: TransactionState) -> None:
    in_state(S.OPEN).check_open()
    with pytest.raises(OttlaError):
        in_state(state).check_open()


def test_a_failure_matters_to_the_open_transaction_alone_and_the_first_one_stays() -> None:
    ready = in_state(S.READY)
    ready.fail(TOO_LARGE)
    assert ready.state is S.READY
    failed = in_state(S.FAILED)
    failed.fail(error_from_code(ErrorCode.REQUEST_TIMED_OUT, "too late"))
    assert "too large" in failed.reason().message
    fatal = in_state(S.OPEN)
    fatal.fail(error_from_code(ErrorCode.UNSUPPORTED_VERSION, "old"))
    assert fatal.state is S.FATAL


def test_the_producer_of_the_next_transaction_comes_with_the_end_and_nothing_is_begun_in_it() -> None:
    transactions = in_state(S.OPEN)
    transactions.begun = True
    assert transactions.end(committed=True)
    transactions.ended(Assigned(ProducerEpoch(7, 1)), committed=False)
    transactions.begin()
    assert (transactions.producer, transactions.begun) == (ProducerEpoch(7, 1), False)


# ---- with the accumulator


def accumulator(state: TransactionState) -> TransactionalAccumulator:
    limits = ProducerLimits(linger_s=0.0, batch_bytes=150, delivery_timeout_s=50.0, idempotent=True)
    acc = TransactionalAccumulator(limits, lambda size: new_builder(size, pure=True))
    in_state(state, acc.transactions)
    return acc


def add(acc: TransactionalAccumulator, partition: int, now: float = 0.0) -> ProducerBatch:
    queue, value = acc.queue(PARTITIONS[partition]), b"v" * 50
    batch = acc.append(queue, 1000, None, value, ()) or acc.append_to_new(queue, 1000, None, value, (), now)
    assert batch is not None
    return batch


def stamps(request: OutgoingRequest) -> list[tuple[int, int, int]]:
    return [part.batch.stamp for part in request.parts]


def answer(acc: TransactionalAccumulator, request: OutgoingRequest, code: int = 0) -> list[ProducerBatch]:
    response = BatchResponse(5, code=code, message="scripted")
    responses = {part.route.partition_id: response for part in request.parts}
    settled = acc.on_response(request, responses, 1.0).settled
    acc.on_announced(settled)
    return settled


def test_every_partition_begins_at_0_in_the_transactions_epoch_and_batches_bear_the_attribute() -> None:
    acc = accumulator(S.OPEN)
    transactions = acc.transactions
    batches = [add(acc, 0), add(acc, 1)]
    drained = acc.drain(1.0, ROUTES)
    assert [stamps(request) for request in drained.requests] == [[(7, 0, 0), (7, 0, 0)]]
    assert not drained.wants_producer_id
    header = read_header(batches[0].encode(Codec.NONE, TRANSACTIONAL))
    assert (header.is_transactional, header.producer_id, header.producer_epoch) == (True, 7, 0)
    assert transactions.begun
    answer(acc, drained.requests[0])
    transactions.end(committed=True)
    transactions.ended(Assigned(ProducerEpoch(7, 1)), committed=False)
    with pytest.raises(ConfigError, match="between transactions"):
        add(acc, 0)
    transactions.begin()
    add(acc, 0)
    assert stamps(acc.drain(1.0, ROUTES).requests[0]) == [(7, 1, 0)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    ],
)
def test_what_fails_for_good_takes_the_whole_transaction_along(code: ErrorCode) -> None:
    acc = accumulator(S.OPEN)
    transactions = acc.transactions
    batches = [add(acc, 0), add(acc, 1)]
    (request,) = acc.drain(1.0, {PARTITIONS[0]: ROUTES[PARTITIONS[0]]}).requests
    assert set(answer(acc, request, code)) == set(batches)
    assert transactions.state is S.FAILED
    assert all(batch.error is not None for batch in batches)
    assert acc.used_bytes == 0
    assert acc.drain(2.0, ROUTES).requests == []


@pytest.mark.parametrize("code", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_what_may_succeed_later_is_sent_again_under_its_stamp_soon_where_the_last_transaction_ends(
    code: ErrorCode,
) -> None:
    acc = accumulator(S.OPEN)
    transactions = acc.transactions
    add(acc, 0)
    (request,) = acc.drain(1.0, ROUTES).requests
    assert answer(acc, request, code) == []
    soon = acc.drain(1.03, ROUTES).requests
    assert bool(soon) == (code is ErrorCode.CONCURRENT_TRANSACTIONS)
    again = soon or acc.drain(1.2, ROUTES).requests
    assert stamps(again[0]) == [(7, 0, 0)]
    assert transactions.state is S.OPEN


def test_after_a_failure_no_batch_leaves_before_those_in_flight_are_back() -> None:
    acc = accumulator(S.OPEN)
    requests = [acc.drain(1.0, ROUTES).requests[0] for _ in range(2) if add(acc, 0)]
    answer(acc, requests[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    add(acc, 0)
    assert acc.drain(5.0, ROUTES).requests == []
    answer(acc, requests[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sent = [stamps(request) for _ in range(3) for request in acc.drain(9.0, ROUTES).requests]
    assert sent == [[(7, 0, n)] for n in range(3)]


@pytest.mark.parametrize("version", [TRANSACTIONS_V1, TRANSACTIONS_V2])
def test_in_version_1_a_batch_waits_until_its_partition_is_in_the_transaction(version: int) -> None:
    acc = accumulator(S.UNINITIALIZED)
    acc.transactions.initialize(Assigned(FIRST, version))
    acc.transactions.begin()
    add(acc, 0)
    drained = [acc.drain(1.0, ROUTES) for _ in range(2)]
    if version == TRANSACTIONS_V1:
        assert [each.wants_partitions for each in drained] == [[PARTITIONS[0]], []]
        assert (drained[0].requests, acc.transactions.begun) == ([], True)
        acc.transactions.not_added([PARTITIONS[0]])
        drained = [acc.drain(1.0, ROUTES)]
        assert drained[0].wants_partitions == [PARTITIONS[0]]
        acc.transactions.added([PARTITIONS[0]])
        drained = [acc.drain(1.0, ROUTES)]
    assert (drained[0].wants_partitions, len(drained[0].requests)) == ([], 1)
    assert acc.transaction_version == version


def test_a_batch_whose_time_is_over_fails_its_transaction() -> None:
    acc = accumulator(S.OPEN)
    transactions = acc.transactions
    batches = [add(acc, 0, now=0.0), add(acc, 1, now=40.0)]
    assert set(acc.drain(51.0, {}).reported.settled) == set(batches)
    assert transactions.state is S.FAILED


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_batch_carries_another_transactions_epoch_and_all_are_settled(data: st.DataObject) -> None:
    acc = accumulator(S.READY)
    transactions = acc.transactions
    under_way: list[OutgoingRequest] = []
    sent: dict[ProducerBatch, ProducerEpoch] = {}
    settled: set[ProducerBatch] = set()
    seen: dict[tuple[ProducerEpoch, int], set[int]] = {}
    codes = [0, 0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS]
    codes += [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.MESSAGE_TOO_LARGE]
    now = 0.0
    for _ in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.sampled_from([0.01, 0.5, 30.0]))
        match data.draw(st.sampled_from(["send", "send", "drain", "drain", "answer", "answer", "end"])):
            case "send" if transactions.state is S.OPEN:
                sent[add(acc, data.draw(st.integers(0, 2)), now)] = transactions.producer
            case "drain":
                drained = acc.drain(now, ROUTES)
                settled |= set(drained.reported.settled)
                acc.on_announced(drained.reported.settled)
                under_way += drained.requests
            case "answer" if under_way:
                request = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
                settled |= set(answer(acc, request, data.draw(st.sampled_from(codes))))
            case "end":
                commits = transactions.state is S.OPEN and not acc.incomplete
                if transactions.state is not S.READY:
                    transactions.end(committed=commits)
                    settled |= set(dropped := acc.abort(transactions.reason()))
                    acc.on_announced(dropped)
                    following = transactions.producer._replace(epoch=transactions.producer.epoch + 1)
                    transactions.ended(Assigned(following), committed=commits)
                    assert not acc.incomplete
                transactions.begin()
        for batch in (part.batch for request in under_way for part in request.parts):
            assert batch.stamp[:2] == sent[batch], "an epoch of another transaction"
            seen.setdefault((sent[batch], batch.partition.partition), set()).add(batch.stamp.sequence)
    if transactions.state is not S.READY:
        settled |= set(acc.abort(transactions.reason()))
    assert settled == set(sent)
    assert all(0 in sequences for sequences in seen.values()), "each partition begins at 0"


def test_a_batch_that_is_too_large_is_split_within_its_transaction() -> None:
    limits = ProducerLimits(linger_s=0.0, batch_bytes=300, idempotent=True)
    acc = TransactionalAccumulator(limits, lambda size: new_builder(size, pure=True))
    in_state(S.OPEN, acc.transactions)
    (batch,) = dict.fromkeys(add(acc, 0) for _ in range(4))
    (request,) = acc.drain(1.0, ROUTES).requests
    assert answer(acc, request, ErrorCode.MESSAGE_TOO_LARGE) == []
    parts = [request for _ in range(2) for request in acc.drain(1.0, ROUTES).requests]
    assert [stamps(request) for request in parts] == [[(7, 0, 0)], [(7, 0, 2)]]
    assert [answer(acc, request) for request in parts] == [[], [batch]]
    assert acc.transactions.end(committed=True)


def test_a_part_that_fails_fails_the_transaction() -> None:
    limits = ProducerLimits(linger_s=0.0, batch_bytes=300, idempotent=True)
    acc = TransactionalAccumulator(limits, lambda size: new_builder(size, pure=True))
    in_state(S.OPEN, acc.transactions)
    (batch,) = dict.fromkeys(add(acc, 0) for _ in range(2))
    (request,) = acc.drain(1.0, ROUTES).requests
    assert answer(acc, request, ErrorCode.MESSAGE_TOO_LARGE) == []
    parts = [request for _ in range(2) for request in acc.drain(1.0, ROUTES).requests]
    assert [answer(acc, request, ErrorCode.MESSAGE_TOO_LARGE) for request in parts] == [[batch], []]
    assert (batch.failed_count, acc.used_bytes, acc.incomplete) == (2, 0, {})
    assert acc.transactions.takes_nothing
