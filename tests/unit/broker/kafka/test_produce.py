"""Produce of Kafka's protocol: what is kept of a request while it waits, and what is told beside an error."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.index import load_response_schema
from kio_messages import read
from logs import values_batch
from replicas import PARTITION, Brokers

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import produce
from ottla_broker.kafka.network.connection import HandlerResult
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.codec import decode, encode
from ottla_core.kafka.messages import ProduceRequest, ProduceResponse
from ottla_core.kafka_formats.primitives import Reader, Writer
from ottla_core.model import PartitionId

PRODUCE, VERSION = 0, 8


class Frame(bytearray):
    """One of whose end a test can hear."""


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    """Broker 1 leads both partitions, which are one and the same; broker 2 is in sync, and late."""
    brokers = Brokers(tmp_path, (1, 2))
    brokers.apply(Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2)))
    return brokers


def begin(
    brokers: Brokers, *batches: bytes, numbers: Sequence[int] = (0, 1)
) -> tuple[HandlerResult, weakref.ref[Frame]]:
    """A produce with acks=all, a batch for each partition; and its frame, as long as anybody keeps it."""
    writer = Writer(flexible=False)
    writer.string(None)
    writer.int16(-1)
    writer.int32(60_000)
    writer.array(1)
    writer.string("t")
    writer.array(len(batches))
    for number, batch in zip(numbers, batches, strict=False):
        writer.int32(number)
        writer.bytes_(batch)
    frame = Frame(writer.buffer)
    replicas = SimpleNamespace(table=SimpleNamespace(find=lambda partition_id: brokers.replicas[1]))
    backend = cast(Backend, SimpleNamespace(replicas=replicas, id_of=lambda topic, number: PARTITION))
    caller = Caller("127.0.0.1", "127.0.0.1")
    request = KafkaContext(VERSION, 1, "me", Reader(memoryview(frame)), caller)
    return produce.handle(backend, request), weakref.ref(frame)


def told(parts: Any) -> list[Any]:
    (topic,) = read(load_response_schema(PRODUCE, VERSION), b"".join(parts)).responses
    return list(topic.partition_responses)


@pytest.mark.story("produce-pins-its-frame", "refusal-pins-the-frame")
@pytest.mark.parametrize("other", [b"", b"refused"])
async def test_while_a_produce_waits_for_acknowledgements_nobody_keeps_its_frame(
    brokers: Brokers, other: bytes
) -> None:
    """It may have 100 MiB, and waits for as long as a follower hangs. Nor does what is refused beside it keep it."""
    answered, frame = begin(brokers, values_batch(b"a"), *([other] if other else []))
    assert asyncio.iscoroutine(answered)
    answering = asyncio.create_task(answered)
    await asyncio.sleep(0)
    assert not answering.done()
    gc.collect()
    assert frame() is None
    for _ in range(2):
        await brokers.fetch(2, 1)
    partitions = told(await answering)
    assert [int(each.error_code) for each in partitions] == [0, ErrorCode.CORRUPT_MESSAGE][: len(partitions)]


@pytest.mark.story("log-start-is-missing-beside-an-error")
async def test_a_refused_partition_tells_where_its_log_begins(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    leader.led_in(None).append(values_batch(b"a"))
    for _ in range(2):
        await brokers.fetch(2, 1)
    leader.led_in(None).delete_records(1)
    answered, _ = begin(brokers, b"no batch")
    (partition,) = told(answered)
    assert (int(partition.error_code), partition.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, 1)


@pytest.mark.story("partition-is-produced-to-twice")
async def test_a_partition_that_stands_there_twice_is_refused_before_anything_is_appended(brokers: Brokers) -> None:
    """No client has it so: a frame of many such elements would be appended one after the other."""
    answered, _ = begin(brokers, values_batch(b"a"), values_batch(b"b"), numbers=(0, 0))
    assert [int(each.error_code) for each in told(answered)] == [ErrorCode.INVALID_REQUEST] * 2
    assert brokers.replicas[1].log.log_end_offset == 0


async def test_a_topic_is_named_by_its_id_from_version_13_on(brokers: Brokers) -> None:
    """The id alone says where a batch goes: a topic that was created again under the same name is another one."""

    def find(partition_id: PartitionId) -> Replica:
        if partition_id.topic_id != PARTITION.topic_id:
            raise OttlaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id")
        return brokers.replicas[1]

    kind = ProduceRequest.TopicProduceData
    part = ProduceRequest.PartitionProduceData(index=PARTITION.partition, records=values_batch(b"a"))
    known, gone = PARTITION.topic_id, bytes(16)
    asked = ProduceRequest(
        acks=1, timeout_ms=1_000, topic_data=[kind(topic_id=each, partition_data=[part]) for each in (known, gone)]
    )
    backend = cast(Backend, SimpleNamespace(replicas=SimpleNamespace(table=SimpleNamespace(find=find))))
    body = Reader(memoryview(encode(asked, 13)), flexible=True)
    answered = produce.handle(backend, KafkaContext(13, 1, "me", body, Caller("127.0.0.1", "127.0.0.1")))
    parts = await answered if asyncio.iscoroutine(answered) else answered
    response = decode(ProduceResponse, b"".join(cast(list[bytes], parts)), 13)
    outcomes = [(topic.topic_id, [p.error_code for p in topic.partition_responses]) for topic in response.responses]
    assert outcomes == [(known, [0]), (gone, [ErrorCode.UNKNOWN_TOPIC_ID])]
    assert brokers.replicas[1].log.log_end_offset == 1
