"""ListOffsets: a few bytes ask for work in a thread, so each partition is looked up once at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import list_offsets
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.storage.reading import FoundOffset
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import ListOffsetsRequest
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId, TopicId

VERSION = 8


@pytest.mark.story("partition-looked-up-200-times")
async def test_a_partition_that_is_named_twice_is_refused_and_looked_up_by_nobody() -> None:
    """As Kafka refuses it: one request of 2.4 KB named a partition 200 times."""
    looked_up: list[int] = []

    def leading(partition_id: PartitionId, epoch: object) -> Any:
        async def offset_for_time(timestamp_ms: int, *, read_committed: bool) -> FoundOffset:
            assert not read_committed
            looked_up.append(partition_id.partition)
            return FoundOffset(7, timestamp_ms)

        return SimpleNamespace(offset_for_time=offset_for_time, epoch=1)

    backend = cast(
        Backend,
        SimpleNamespace(
            id_of=lambda topic, number: PartitionId(TopicId(b"t" * 16), number),
            replicas=SimpleNamespace(table=SimpleNamespace(leading=leading)),
        ),
    )
    kind = ListOffsetsRequest.ListOffsetsTopic
    partitions = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=5)
        for number in (0, 1, *[0] * 200)
    ]
    asked = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[kind(name="t", partitions=partitions)])
    request = KafkaContext(VERSION, 1, "me", Reader(memoryview(b"")), Caller("127.0.0.1", "127.0.0.1"))
    answer = await list_offsets.handle(backend, asked, request)
    (topic,) = answer.topics
    assert {p.partition_index: p.error_code for p in topic.partitions} == {0: ErrorCode.INVALID_REQUEST, 1: 0}
    assert looked_up == [1]
