"""WriteTxnMarkers in both versions: what an operator's marker ends, and what it is refused for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from led import Led
from produced import produced
from transactional_logs import transactions_told_by

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import write_txn_markers
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.partition_requests.active_producers import active_producers
from ottla_broker.partition_requests.transaction_markers import MOST_MARKERS
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.codec import encode
from ottla_core.kafka.messages import WriteTxnMarkersRequest
from ottla_core.kafka_formats.primitives import MalformedError, Reader
from ottla_core.model import PartitionId
from ottla_core.records.batch import TRANSACTIONAL

PRODUCER, EPOCH, COORDINATOR_EPOCH = 7, 3, 5
_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


@pytest.fixture
def led(tmp_path: Path) -> Led:
    """A transaction is open in partitions 0 and 1."""
    led = Led(tmp_path, count=2)
    batch = produced(0, producer_id=PRODUCER, epoch=EPOCH, attributes=TRANSACTIONAL)
    for replica in led.replicas.values():
        replica.led_in(None).append(batch, transactional=True)
    return led


def marker(topics: dict[str, list[int]], *, epoch: int = EPOCH, transaction_version: int = 0) -> Any:
    return _Marker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_result=False,
        coordinator_epoch=COORDINATOR_EPOCH,
        transaction_version=transaction_version,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=n, partition_indexes=numbers)
            for n, numbers in topics.items()
        ],
    )


async def codes(led: Led, version: int, *markers: Any) -> list[dict[tuple[str, int], int]]:
    def id_of(topic: str, number: int) -> PartitionId | None:
        return led.id(number) if topic != "gone" else None

    def leading(partition_id: PartitionId, known_epoch: int | None) -> Any:
        if partition_id not in led.replicas:
            raise OttlaError(ErrorCode.UNKNOWN_TOPIC_ID, "unknown")
        return led.replicas[partition_id].led_in(known_epoch)

    backend = cast(
        Backend, SimpleNamespace(id_of=id_of, replicas=SimpleNamespace(table=SimpleNamespace(leading=leading)))
    )
    context = KafkaContext(version, 1, "me", Reader(memoryview(b"")), Caller("127.0.0.1", "127.0.0.1"))
    encoded = encode(WriteTxnMarkersRequest(markers=markers), version)
    request = codec.decode(WriteTxnMarkersRequest, version, Reader(memoryview(encoded), flexible=True))
    response = await write_txn_markers.handle(backend, request, context)
    assert [result.producer_id for result in response.markers] == [PRODUCER] * len(markers)
    assert codec.encode(response, version, write_txn_markers.API.errors)
    return [
        {(topic.name, p.partition_index): p.error_code for topic in result.topics for p in topic.partitions}
        for result in response.markers
    ]


def is_open(led: Led, number: int) -> bool:
    return PRODUCER in led.replicas[led.id(number)].log.producers.transactions


@pytest.mark.parametrize("version", [1, 2])
async def test_a_marker_ends_a_transaction_where_it_is_named(led: Led, version: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    named = marker({"gone": [0], "t": [9, 1]})
    assert await codes(led, version, named) == [{("gone", 0): unknown, ("t", 9): unknown, ("t", 1): 0}]
    assert (is_open(led, 0), is_open(led, 1)) == (True, False)
    (aborted,) = transactions_told_by(led.replicas[led.id(1)].log).aborted
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (PRODUCER, 0, 1)
    known = led.replicas[led.id(1)].log.producers.get(PRODUCER)
    assert known is not None
    assert (known.epoch, known.coordinator_epoch) == (EPOCH, COORDINATOR_EPOCH)


@pytest.mark.story("marker-without-a-time")
async def test_the_time_of_a_producer_is_that_of_its_newest_batch_or_marker(led: Led) -> None:
    """Kafka's tools need it to show a hanging transaction, and one that has ended."""
    replica = led.replicas[led.id(1)]
    known = replica.log.producers.get(PRODUCER)
    assert known is not None
    (begun,) = await active_producers(replica.log.producers)
    assert begun.last_timestamp_ms == known.batches[-1].timestamp_ms
    [ended] = await codes(led, 2, marker({"t": [1]}, epoch=EPOCH + 1, transaction_version=2))
    assert ended == {("t", 1): 0}
    (over,) = await active_producers(replica.log.producers)
    assert (over.first_offset, over.last_sequence) == (-1, -1), "the marker has raised the epoch"
    known = replica.log.producers.get(PRODUCER)
    assert known is not None
    assert over.last_timestamp_ms == known.seen_at_ms >= 0


async def test_every_marker_has_its_own_answer(led: Led) -> None:
    older, good = marker({"t": [0]}, epoch=EPOCH - 1), marker({"t": [0, 1]})
    assert await codes(led, 2, older, good) == [
        {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH},
        {("t", 0): 0, ("t", 1): 0},
    ]


async def test_a_marker_of_transactions_v2_raises_the_epoch(led: Led) -> None:
    named = {"t": [0]}
    [refused] = await codes(led, 2, marker(named, transaction_version=2))
    assert refused == {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await codes(led, 2, marker(named, epoch=EPOCH + 1, transaction_version=2)) == [{("t", 0): 0}]


@pytest.mark.parametrize("version", [1, 2])
async def test_internal_topics_take_none(led: Led, version: int) -> None:
    cast(Any, led.replicas[led.id(0)].disk).topic = "__consumer_offsets"
    name = "__consumer_offsets"
    assert await codes(led, version, marker({name: [0]})) == [{(name, 0): ErrorCode.INVALID_TOPIC_EXCEPTION}]
    assert is_open(led, 0)


async def test_what_is_no_marker_is_refused_whole(led: Led) -> None:
    bad, good = marker({"t": [0]}, epoch=-1), marker({"t": [1]})
    refused = ErrorCode.INVALID_REQUEST
    assert await codes(led, 2, bad, good) == [{("t", 0): refused}, {("t", 1): refused}]
    assert is_open(led, 1)


async def test_more_than_a_request_may_have_ends_its_connection(led: Led) -> None:
    with pytest.raises(MalformedError):
        await codes(led, 2, marker({"t": [0] * MOST_MARKERS}))
    [repeats] = await codes(led, 2, marker({"t": [0] * 1_000}))
    assert repeats == {("t", 0): 0}
    assert led.replicas[led.id(0)].log.log_end_offset == 2, "a repeat is not written"
