"""Transactions by hand, in every version of their APIs: fenced, unknown and out-of-order requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.compat.differential.stories.produces import PRODUCE, init, numbered, produce
from tests.compat.differential.story import Facts, Side, Story, by_version, code_name, patient
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until
from wire import batch

INIT, ADD, OFFSETS, END, COMMIT = 22, 24, 25, 26, 28
_V1_END: Final = 4
_NEWEST_ADD: Final = 3


def code_in(ask: Callable[[], int]) -> str:
    return code_name(patient(ask, int))


def add(wire: KafkaWire, version: int, txn: str, producer: tuple[int, int], topic: str, partition: int = 0) -> str:
    named = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[partition])
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=txn,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[named],
    )

    def ask() -> int:
        response = wire.ask(request, version, AddPartitionsToTxnResponse)
        code: int = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    return code_in(ask)


def add_offsets(wire: KafkaWire, version: int, txn: str, producer: tuple[int, int], group: str) -> str:
    request = AddOffsetsToTxnRequest(
        transactional_id=txn, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )
    return code_in(lambda: wire.ask(request, version, AddOffsetsToTxnResponse).error_code)


def end(wire: KafkaWire, version: int, txn: str, producer: tuple[int, int], *, committed: bool = True) -> str:
    request = EndTxnRequest(
        transactional_id=txn, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )
    return code_in(lambda: wire.ask(request, version, EndTxnResponse).error_code)


def commit(wire: KafkaWire, version: int, txn: str, producer: tuple[int, int], topic: str, **who: Any) -> str:
    part = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    member = {"generation_id": -1, "member_id": "", "group_instance_id": None} | who
    request = TxnOffsetCommitRequest(
        transactional_id=txn,
        group_id=f"g-{txn}",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        **member,
    )

    def ask() -> int:
        code: int = wire.ask(request, version, TxnOffsetCommitResponse).topics[0].partitions[0].error_code
        return code

    return code_in(ask)


def _produces(side: Side) -> Facts:
    """What a transactional producer hears of its batches."""
    topic = side.topic(2)
    record = batch(b"v")

    def not_added(version: int) -> str:
        with side.wire() as wire:
            txn = side.fresh("txn")
            producer = init(wire, txn)
            data = numbered(record, *producer, 0, transactional=True)
            return code_name(produce(wire, version, topic, data, transactional_id=txn).error_code)

    def fenced(version: int) -> str:
        with side.wire() as wire:
            txn = side.fresh("txn")
            producer = init(wire, txn)
            add(wire, _NEWEST_ADD, txn, producer, topic)
            init(wire, txn)
            data = numbered(record, *producer, 0, transactional=True)
            return code_name(produce(wire, version, topic, data, transactional_id=txn).error_code)

    def fenced_inside(version: int) -> str:
        with side.wire() as wire:
            txn = side.fresh("txn")
            producer = init(wire, txn)
            add(wire, _NEWEST_ADD, txn, producer, topic)
            data = numbered(record, *producer, 0, transactional=True)
            first = produce(wire, version, topic, data, transactional_id=txn)
            init(wire, txn)
            data = numbered(record, *producer, 1, transactional=True)
            again = produce(wire, version, topic, data, transactional_id=txn)
            other = numbered(record, *producer, 0, transactional=True)
            elsewhere = produce(wire, version, topic, other, transactional_id=txn, partition=1)
            return " ".join(code_name(part.error_code) for part in (first, again, elsewhere))

    def another_id(version: int) -> str:
        with side.wire() as wire:
            txn = side.fresh("txn")
            producer_id, epoch = init(wire, txn)
            data = numbered(record, producer_id + 100_000, epoch, 0, transactional=True)
            return code_name(produce(wire, version, topic, data, transactional_id=txn).error_code)

    def unknown_txn(version: int) -> str:
        with side.wire() as wire:
            txn = side.fresh("never")
            data = numbered(record, 7, 0, 0, transactional=True)
            return code_name(produce(wire, version, topic, data, transactional_id=txn).error_code)

    def plain_inside(version: int) -> str:
        with side.wire() as wire:
            txn = side.fresh("txn")
            producer = init(wire, txn)
            add(wire, _NEWEST_ADD, txn, producer, topic)
            data = numbered(record, *producer, 0, transactional=True)
            first = produce(wire, version, topic, data, transactional_id=txn)
            second = produce(wire, version, topic, numbered(record, *producer, 1))
            return " ".join(code_name(part.error_code) for part in (first, second))

    told = {
        "its partition was not added": not_added,
        "another producer has the id": fenced,
        "another producer has aborted it": fenced_inside,
        "of another producer id": another_id,
        "of an unknown transactional id": unknown_txn,
        "a plain batch inside": plain_inside,
    }
    return {name: by_version(PRODUCE, live) for name, live in told.items()}


def _coordinator(side: Side) -> Facts:
    topic = side.topic()

    def with_producer(live: Callable[[KafkaWire, int, str, tuple[int, int]], str]) -> Callable[[int], str]:
        def of(version: int) -> str:
            with side.wire() as wire:
                txn = side.fresh("txn")
                return live(wire, version, txn, init(wire, txn))

        return of

    def after_fence(live: Callable[[KafkaWire, int, str, tuple[int, int]], str]) -> Callable[[int], str]:
        def of(wire: KafkaWire, version: int, txn: str, producer: tuple[int, int]) -> str:
            add(wire, _NEWEST_ADD, txn, producer, topic)
            init(wire, txn)
            return live(wire, version, txn, producer)

        return with_producer(of)

    def another(producer: tuple[int, int]) -> tuple[int, int]:
        return producer[0] + 100_000, producer[1]

    def init_with(wire: KafkaWire, version: int, txn: str | None, producer: tuple[int, int], timeout: int) -> str:
        request = InitProducerIdRequest(
            transactional_id=txn,
            transaction_timeout_ms=timeout,
            producer_id=producer[0] if version >= 3 else -1,
            producer_epoch=producer[1] if version >= 3 else -1,
        )
        return code_in(lambda: wire.ask(request, version, InitProducerIdResponse).error_code)

    return {
        "init: fenced": by_version(INIT, after_fence(lambda w, v, t, p: init_with(w, v, t, p, 60_000))),
        "init: another producer id": by_version(
            INIT, with_producer(lambda w, v, t, p: init_with(w, v, t, another(p), 60_000))
        ),
        "init: timeout above the maximum": by_version(
            INIT, with_producer(lambda w, v, t, p: init_with(w, v, t, (-1, -1), 2_000_000_000))
        ),
        "init: timeout 0": by_version(INIT, with_producer(lambda w, v, t, p: init_with(w, v, t, (-1, -1), 0))),
        "init: no name": by_version(INIT, with_producer(lambda w, v, t, p: init_with(w, v, "", (-1, -1), 60_000))),
        "add: well": by_version(ADD, with_producer(lambda w, v, t, p: add(w, v, t, p, topic))),
        "add: fenced": by_version(ADD, after_fence(lambda w, v, t, p: add(w, v, t, p, topic))),
        "add: another producer id": by_version(ADD, with_producer(lambda w, v, t, p: add(w, v, t, another(p), topic))),
        "add: unknown id": by_version(ADD, lambda v: _ask(side, lambda w: add(w, v, "never", (7, 0), topic))),
        "add: unknown partition": by_version(ADD, with_producer(lambda w, v, t, p: add(w, v, t, p, topic, 9))),
        "offsets: fenced": by_version(OFFSETS, after_fence(lambda w, v, t, p: add_offsets(w, v, t, p, "g"))),
        "offsets: another producer id": by_version(
            OFFSETS, with_producer(lambda w, v, t, p: add_offsets(w, v, t, another(p), "g"))
        ),
        "offsets: no group": by_version(OFFSETS, with_producer(lambda w, v, t, p: add_offsets(w, v, t, p, ""))),
        "end: fenced": by_version(END, after_fence(lambda w, v, t, p: end(w, v, t, p))),
        "end: another producer id": by_version(END, with_producer(lambda w, v, t, p: end(w, v, t, another(p)))),
        "end: unknown id": by_version(END, lambda v: _ask(side, lambda w: end(w, v, "never", (7, 0)))),
        "end: commit where nothing is open": by_version(END, with_producer(lambda w, v, t, p: end(w, v, t, p))),
        "end: abort where nothing is open": by_version(
            END, with_producer(lambda w, v, t, p: end(w, v, t, p, committed=False))
        ),
        "commit: fenced": by_version(COMMIT, after_fence(lambda w, v, t, p: commit(w, v, t, p, topic))),
        "commit: another producer id": by_version(
            COMMIT, with_producer(lambda w, v, t, p: commit(w, v, t, another(p), topic))
        ),
        "commit: not added": by_version(COMMIT, with_producer(lambda w, v, t, p: commit(w, v, t, p, topic))),
        "commit: an unknown member": by_version(
            COMMIT, with_producer(lambda w, v, t, p: _committed(w, v, t, p, topic, generation_id=1, member_id="m"))
        ),
        "commit: an unknown topic": by_version(COMMIT, with_producer(lambda w, v, t, p: commit(w, v, t, p, "nowhere"))),
    }


def _committed(wire: KafkaWire, version: int, txn: str, producer: tuple[int, int], topic: str, **who: Any) -> str:
    add_offsets(wire, 3, txn, producer, f"g-{txn}")
    return commit(wire, version, txn, producer, topic, **who)


def _ask(side: Side, ask: Callable[[KafkaWire], str]) -> str:
    with side.wire() as wire:
        return ask(wire)


def _described(side: Side) -> Facts:
    """What operators see of a transaction, and of its producer, while it is open and once it is over."""
    topic, txn = side.topic(), side.fresh("txn")
    facts: Facts = {}
    with side.wire() as wire:
        producer = init(wire, txn)
        facts["no id"] = _transaction(wire, side.fresh("never"))
        facts["empty"] = _transaction(wire, txn)
        add(wire, _NEWEST_ADD, txn, producer, topic)
        data = numbered(batch(b"v"), *producer, 0, transactional=True)
        produce(wire, 11, topic, data, transactional_id=txn)
        facts["open"] = _transaction(wire, txn)
        facts["open: its producer"] = _producer(wire, topic)
        end(wire, _V1_END, txn, producer)
        wait_until(lambda: "CompleteCommit" in _transaction(wire, txn))
        facts["committed"] = _transaction(wire, txn)
        facts["committed: its producer"] = _producer(wire, topic)
        facts["producers of an unknown topic"] = _producer(wire, "nowhere")
        facts["producers of an unknown partition"] = _producer(wire, topic, 9)
    return facts


def _transaction(wire: KafkaWire, txn: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[txn])
    (found,) = wire.ask(request, 0, DescribeTransactionsResponse).transaction_states
    if found.error_code:
        return code_name(found.error_code)
    begun = "began" if found.transaction_start_time_ms > 0 else "never began"
    partitions = [p for topic in found.topics for p in topic.partitions]
    return f"{found.transaction_state}, {begun}, {partitions}, {found.transaction_timeout_ms} ms"


def _producer(wire: KafkaWire, topic: str, partition: int = 0) -> str:
    named = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    response = wire.ask(DescribeProducersRequest(topics=[named]), 0, DescribeProducersResponse)
    (found,) = response.topics[0].partitions
    if found.error_code:
        return code_name(found.error_code)
    (producer,) = found.active_producers
    of_batch = producer.last_timestamp == 1_700_000_000_000
    when = "of the batch" if of_batch else "later" if producer.last_timestamp > 0 else "none"
    return (
        f"sequence {producer.last_sequence}, time {when}, coordinator epoch {min(producer.coordinator_epoch, 0)}, "
        f"from {producer.current_txn_start_offset}"
    )


STORIES: Final = (
    Story("transactional produces", _produces),
    Story("transaction coordinator", _coordinator),
    Story("described transactions", _described),
)
