"""Produce and Fetch, which are read and written by hand, against kio in every version that is served."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.index import load_request_schema, load_response_schema
from kio_messages import invent, read, write

from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import produce
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire.fetch_request import FetchResponsePartition, RequestedPartition
from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.kafka.wire.leaders import NewLeaders
from ottla_broker.machines.bad_records import BadRecord, BadRecordsError
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.replication.fetch import FetchResult
from ottla_broker.replication.produce import ProduceResult
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.primitives import MalformedError, Reader
from ottla_core.model import PartitionId, TopicId

PRODUCE, FETCH = 0, 1
PRODUCE_VERSIONS = range(APIS[PRODUCE].min_version, APIS[PRODUCE].max_version + 1)
FETCH_VERSIONS = range(APIS[FETCH].min_version, APIS[FETCH].max_version + 1)
EXAMPLES = 10
CALLER = Caller("127.0.0.1", "127.0.0.1")
TOPIC_ID = TopicId(bytes(range(16)))
MOVED = OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it moved")


def reader_of(data: bytes, key: int, version: int) -> Reader:
    return Reader(memoryview(data), flexible=version in APIS[key].flexible)


def ms(delta: Any) -> int:
    milliseconds: int = round(delta.total_seconds() * 1000)
    return milliseconds


def named(topic: Any) -> str | TopicId:
    """A topic's name, or its id where kio has that."""
    return TopicId(topic.topic_id.bytes if topic.topic_id else bytes(16)) if hasattr(topic, "topic_id") else topic.name


def topics_of(version: int) -> tuple[str | TopicId, str | TopicId, str | TopicId]:
    if version < 13:
        return "a", "ü" * 100, "none"
    return TopicId(b"a" * 16), TopicId(b"b" * 16), TopicId(b"c" * 16)


def backend_of_two() -> Backend:
    """Where broker 1 leads that topic's partition 0, in epoch 7."""
    leads = SimpleNamespace(leader=1, leader_epoch=7)
    image = SimpleNamespace(
        partitions={PartitionId(TOPIC_ID, 0): leads}, brokers={1: SimpleNamespace(id=1, rack="rack-1")}
    )
    addresses = SimpleNamespace(advertised=lambda *_: SimpleNamespace(host="host-1", port=9093))
    return cast(Backend, SimpleNamespace(image=image, addresses=addresses))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_of_kio_is_read(version: int) -> None:
    schema = load_request_schema(PRODUCE, version)
    for seed in range(EXAMPLES):
        meant = invent(schema, random.Random(seed))
        body = reader_of(write(meant), PRODUCE, version)
        transactional_id, acks, timeout_ms, topics = produce._read(body, version)
        assert body.at == body.end
        assert (transactional_id, acks, timeout_ms) == (meant.transactional_id, meant.acks, ms(meant.timeout))
        assert topics == [(named(t), [(p.index, p.records or b"") for p in t.partition_data]) for t in meant.topic_data]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_our_answer_to_a_produce_is_read_by_kio(version: int) -> None:
    refused = OttlaError(ErrorCode.CORRUPT_MESSAGE, "its CRC is wrong")
    first, second, third = topics_of(version)
    results = [
        (
            first,
            [
                ProduceResult(PartitionId(TOPIC_ID, 0), 41, 1_700_000_000_000, 5),
                ProduceResult(PartitionId(TOPIC_ID, 7), error=refused),
            ],
        ),
        (second, [ProduceResult(PartitionId(TOPIC_ID, 0), error=MOVED)]),
        (third, []),
    ]
    flexible = reader_of(b"", PRODUCE, version).flexible
    parts = produce._encoded(backend_of_two(), produce._Context(version, flexible, CALLER, 1), results)
    answer = read(load_response_schema(PRODUCE, version), b"".join(parts))
    assert ms(answer.throttle_time) == 0
    assert [named(t) for t in answer.responses] == [first, second, third]
    (good, bad), (moved,), _ = (t.partition_responses for t in answer.responses)
    assert (good.index, int(good.error_code), good.base_offset) == (0, 0, 41)
    assert good.log_append_time.timestamp() == 1_700_000_000
    assert (bad.index, int(bad.error_code), bad.base_offset) == (7, ErrorCode.CORRUPT_MESSAGE, -1)
    assert int(moved.error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 5:
        assert (good.log_start_offset, bad.log_start_offset) == (5, -1)
    if version >= 8:
        assert (good.record_errors, good.error_message, bad.error_message) == ((), None, "its CRC is wrong")
    if version >= 10:
        assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (1, 7)
        assert (good.current_leader.leader_id, good.current_leader.leader_epoch) == (-1, -1)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (1, "host-1", 9093, "rack-1")


@pytest.mark.story("record-errors-are-empty")
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_the_bad_records_of_a_batch_are_named(version: int) -> None:
    bad = [BadRecord(0, "no key"), BadRecord(70_000, "ü")]
    error = BadRecordsError(ErrorCode.INVALID_RECORD, "two of them", bad, hint="take others")
    results = [(topics_of(version)[0], [ProduceResult(PartitionId(TOPIC_ID, 3), log_start_offset=5, error=error)])]
    flexible = reader_of(b"", PRODUCE, version).flexible
    parts = produce._encoded(backend_of_two(), produce._Context(version, flexible, CALLER, 1), results)
    ((told,),) = (
        t.partition_responses for t in read(load_response_schema(PRODUCE, version), b"".join(parts)).responses
    )
    assert (int(told.error_code), told.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    if version >= 5:
        assert told.log_start_offset == 5
    if version >= 8:
        assert [(e.batch_index, e.batch_index_error_message) for e in told.record_errors] == bad
        assert told.error_message == "two of them; take others"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_of_kio_is_read(version: int) -> None:
    schema, by_id = load_request_schema(FETCH, version), version >= fetch_wire.TOPIC_ID_FROM
    for seed in range(EXAMPLES):
        meant = invent(schema, random.Random(seed))
        body = reader_of(write(meant), FETCH, version)
        asked = fetch_wire.read(body, version)
        assert body.at == body.end
        terms = (asked.max_wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation)
        assert terms == (ms(meant.max_wait), meant.min_bytes, meant.max_bytes, meant.isolation_level)
        replica_id = meant.replica_state.replica_id if version >= 15 else meant.replica_id
        assert asked.replica_id == replica_id
        assert asked.partitions == [
            RequestedPartition(
                topic_of(t, by_id=by_id),
                p.partition,
                p.current_leader_epoch if version >= 9 else -1,
                p.fetch_offset,
                p.partition_max_bytes,
            )
            for t in meant.topics
            for p in t.partitions
        ]
        if version >= 7:
            assert (asked.session_id, asked.session_epoch) == (meant.session_id, meant.session_epoch)
            forgotten = meant.forgotten_topics_data
            assert asked.forgotten == [(topic_of(t, by_id=by_id), p) for t in forgotten for p in t.partitions]
        if version >= 11:
            assert asked.rack == meant.rack_id


def topic_of(topic: Any, *, by_id: bool) -> str | TopicId:
    return TopicId(topic.topic_id.bytes if topic.topic_id else bytes(16)) if by_id else str(topic.topic)


ABORTED = [AbortedTransaction(7, 1, 3, 4), AbortedTransaction(2**40, 2, 4, 5)]


@pytest.mark.rule(38)
@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_our_answer_to_a_fetch_is_read_by_kio(version: int, isolation: int) -> None:
    by_id = version >= fetch_wire.TOPIC_ID_FROM
    topic: Any = TOPIC_ID if by_id else "topic"
    other: Any = TopicId(bytes(15) + b"\1") if by_id else "other"
    small, large = b"s" * 100, b"l" * 10_000
    partition = PartitionId(TOPIC_ID, 0)
    fetched = [
        (
            topic,
            FetchResult(
                partition,
                b"s" * 100,
                HighWatermark(9),
                log_start_offset=3,
                last_stable_offset=LastStableOffset(5),
                aborted=ABORTED,
            ),
        ),
        (
            topic,
            FetchResult(
                partition, high_watermark=HighWatermark(8), log_start_offset=2, records=large, preferred_replica=4
            ),
        ),
        (other, FetchResult(partition, error=MOVED)),
        (other, FetchResult(partition)),
    ]
    parts = [
        FetchResponsePartition(RequestedPartition(name, n, -1, 0, 1), each) for n, (name, each) in enumerate(fetched)
    ]
    leaders = NewLeaders(backend_of_two(), CALLER)
    written = fetch_wire.write(version, parts, leaders, isolation=isolation, session_id=77, error_code=70)
    answer = read(load_response_schema(FETCH, version), b"".join(written))
    assert ms(answer.throttle_time) == 0
    if version >= 7:
        assert (answer.session_id, int(answer.error_code)) == (77, 70)
    assert [t.topic_id.bytes if by_id else t.topic for t in answer.responses] == [topic, other]
    told = [p for t in answer.responses for p in t.partitions]
    assert [p.partition_index for p in told] == [0, 1, 2, 3]
    assert [int(p.error_code) for p in told] == [0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
    assert [bytes(p.records) for p in told] == [small, large, b"", b""]
    for p, (_, each) in zip(told, fetched, strict=True):
        assert (p.high_watermark, p.last_stable_offset) == (each.high_watermark, each.last_stable_offset)
        aborted = [(a.producer_id, a.first_offset) for a in p.aborted_transactions or ()]
        assert aborted == ([a[:2] for a in each.aborted] if isolation else [])
        assert (p.aborted_transactions is None) == (not isolation)
        if version >= 5:
            assert p.log_start_offset == each.log_start_offset
        if version >= 11:
            assert p.preferred_read_replica == (-1 if each.preferred_replica is None else each.preferred_replica)
    if version >= 12:
        assert (told[2].current_leader.leader_id, told[2].current_leader.leader_epoch) == (1, 7)
        assert told[0].current_leader.leader_id == -1
    if version >= 16:
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (1, "host-1", 9093, "rack-1")


@pytest.mark.parametrize(
    ("key", "version"), [*((PRODUCE, v) for v in PRODUCE_VERSIONS), *((FETCH, v) for v in FETCH_VERSIONS)]
)
def test_what_is_cut_off_is_refused(key: int, version: int) -> None:
    sent = write(invent(load_request_schema(key, version), random.Random(1)))
    for end in range(0, len(sent), 1 + len(sent) // 50):
        body = reader_of(sent[:end], key, version)
        with pytest.raises(MalformedError):
            produce._read(body, version) if key == PRODUCE else fetch_wire.read(body, version)
