"""What a coordinator makes of an assignment that a client has chosen, and how it asks leaders about thousands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from images import image_of, with_topic
from turns import turns_during

from ottla_core.cluster.image import Change, ClusterImage, Partition, Topic
from ottla_core.event_loop.slices import Slice
from ottla_core.kafka_formats.consumer_protocol import MemberAssignment, encode_assignment
from ottla_core.model import PartitionId, TopicPartition
from ottla_group_coordinator.lag import Lag, LagReader, Lags
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.responses import assigned
from ottla_proto import broker_pb2

IMAGE = with_topic(image_of(1), "t", 3, number=1)
MANY = 60_000


def member(member_id: str, assignment: bytes) -> Member:
    return Member(member_id, None, "", "", 0, 0, {}, assignment)


def of_partitions(*partitions: tuple[str, int]) -> bytes:
    return encode_assignment(MemberAssignment(tuple(TopicPartition(*each) for each in partitions)))


async def readers(*members: Member, topics: Mapping[str, Topic] = IMAGE.topics) -> dict[TopicPartition, str]:
    return {p: m.member_id for p, m in (await assigned(members, replace(IMAGE, topics=topics), Slice())).items()}


@pytest.mark.story("assignment-is-expanded-on-the-loop")
async def test_only_partitions_that_exist_have_a_reader() -> None:
    first = member("m1", of_partitions(("t", -1), ("t", 0), ("t", 0), ("gone", 0), *(("t", n) for n in range(2, MANY))))
    second = member("m2", of_partitions(("t", 1), *((f"gone{n}", 0) for n in range(1_000))))
    assert await readers(first, second, member("m3", b"")) == {
        TopicPartition("t", 0): "m1",
        TopicPartition("t", 2): "m1",
        TopicPartition("t", 1): "m2",
    }
    assert await readers(first, member("of another kind", b"\0")) == {}


@pytest.mark.usefixtures("slices_by_looks")
@pytest.mark.parametrize("exist", [False, True])
async def test_a_large_assignment_leaves_turns_to_others(*, exist: bool) -> None:
    topics = {"wide": Topic("wide", IMAGE.topics["t"].id, MANY)} if exist else {}
    wide = member("m1", of_partitions(*(("wide", n) for n in range(MANY))))
    narrow = member("m2", of_partitions(*((f"t{n}", 0) for n in range(MANY // 2))))
    finding = asyncio.create_task(readers(wide, narrow, topics=topics))
    assert await turns_during(finding) > 1_000
    assert len(finding.result()) == MANY * exist


class Leader:
    """A leader that knows the ends of all partitions; `asked` has the number of partitions of each call."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def at(self, address: str) -> Leader:
        return self

    async def call(self, method: object, request: Any, *, timeout: float) -> Any:
        self.asked.append(len(request.partitions) // 2)
        ends = [broker_pb2.PartitionOffset(offset=0) for _ in request.partitions]
        return broker_pb2.ListOffsetsResponse(partitions=ends)


def led(partitions: int) -> ClusterImage:
    topic = IMAGE.topics["t"].id
    return IMAGE.with_changes(
        [
            *(Change(("partition", PartitionId(topic, n)), Partition((0,), leader=0)) for n in range(partitions)),
            Change(("topic", "t"), Topic("t", topic, partitions)),
        ],
        99,
    )


@pytest.mark.usefixtures("slices_by_looks")
async def test_leaders_are_asked_about_a_thousand_partitions_at_a_time() -> None:
    leader, image = Leader(), led(2_500)
    reader = LagReader(lambda: image)
    reader._peers = SimpleNamespace(at=leader.at)  # type: ignore[assignment]  # all that it asks of peers
    asked = {TopicPartition("t", n): 0 for n in range(2_500)}
    measuring: asyncio.Task[Lags] = asyncio.create_task(reader.lags(asked))
    assert await turns_during(measuring) > 100
    assert measuring.result() == {partition: Lag(0, 0, 0) for partition in asked}
    assert leader.asked == [1_000, 1_000, 500]
