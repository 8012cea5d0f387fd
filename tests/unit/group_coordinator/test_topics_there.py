"""Commits and the topics that they are of: whoever says that a topic is gone has not merely failed to hear of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from groups import Shard
from images import image_of, topic_id, with_topic

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shard import Entry, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_core.rpc.context import RequestContext
from ottla_group_coordinator.machines.records import CommittedOffset, OffsetKey, encode_key, encode_offset
from ottla_group_coordinator.service import GroupService
from ottla_proto import group_pb2 as pb

CALLER = RequestContext(client_id="test")
NOTHING = image_of(1)
FIRST = with_topic(NOTHING, "t", 2, number=1)
SECOND = with_topic(NOTHING, "t", 2, number=2)


class Metadata:
    """This process has heard of `image`, the store has `newest` (None: it does not answer)."""

    def __init__(self, image: ClusterImage, newest: ClusterImage | None) -> None:
        self.image = image
        self.newest = newest
        self.asked = 0

    async def catch_up(self, timeout: float) -> ClusterImage:
        self.asked += 1
        if self.newest is None:
            raise StoreUnavailableError("nobody answers", indefinite=False)
        self.image = self.newest
        return self.image


class Coordinator:
    def __init__(self) -> None:
        self.shard = Shard()
        self.metadata = Metadata(FIRST, FIRST)
        lag: Any = SimpleNamespace()
        metrics: Any = SimpleNamespace(commit=lambda offsets: None)
        shards: Any = self
        self.service = GroupService(shards, self.metadata, 7, lag, metrics, lag)

    async def ask(self, key: str, decide: Any, **how: Any) -> Any:
        return self.shard.take(decide(self.shard.machine, self.shard.now))

    async def commit(self, offset: int, *, topic: str = "t", id_: bytes = b"") -> int:
        wanted = pb.OffsetToCommit(topic=topic, partition=1, offset=offset, topic_id=id_)
        asked = pb.CommitOffsetsRequest(group="g", generation=-1, offsets=[wanted])
        (outcome,) = (await self.service.commit_offsets(asked, CALLER)).partitions
        return int(outcome.error.code)

    async def committed(self, **how: Any) -> Sequence[pb.CommittedOffset]:
        asked = pb.FetchOffsetsRequest(group="g", partitions=[pb.GroupPartition(topic="t", partition=1)], **how)
        return (await self.service.fetch_offsets(asked, CALLER)).offsets

    async def place(self) -> int:
        (told,) = await self.committed()
        return told.offset


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.mark.story("offsets-of-a-deleted-topic")
async def test_a_commit_into_a_topic_that_is_gone_is_refused(coordinator: Coordinator) -> None:
    assert await coordinator.commit(100) == 0
    assert coordinator.metadata.asked == 0
    coordinator.metadata.newest = coordinator.metadata.image = NOTHING
    assert await coordinator.commit(101) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    coordinator.metadata.newest = SECOND
    assert await coordinator.commit(102, id_=topic_id(1)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await coordinator.place() == -1
    assert await coordinator.commit(3, id_=topic_id(2)) == 0
    (told,) = await coordinator.committed()
    assert (told.offset, told.topic_id) == (3, topic_id(2))


async def test_a_topic_of_which_this_coordinator_has_not_heard_yet_can_be_committed_to(
    coordinator: Coordinator,
) -> None:
    coordinator.metadata.image = NOTHING
    assert await coordinator.commit(100) == 0
    coordinator.metadata.newest = with_topic(SECOND, "new", 2, number=3)
    assert await coordinator.commit(5, topic="new") == 0
    assert await coordinator.commit(6, topic="new") == 0
    assert coordinator.metadata.asked == 2


@pytest.mark.story("offsets-of-a-deleted-topic-at-takeover")
async def test_what_was_committed_in_the_former_topic_is_not_told_of_the_new_one(coordinator: Coordinator) -> None:
    await coordinator.commit(100)
    coordinator.metadata.newest = coordinator.metadata.image = SECOND
    assert await coordinator.place() == -1
    assert list(await coordinator.committed(all=True)) == []


async def test_what_was_committed_in_the_new_topic_is_told_by_whoever_has_not_heard_of_it(
    coordinator: Coordinator,
) -> None:
    """It has just taken the shard over, and would have the group begin anew."""
    coordinator.metadata.image = coordinator.metadata.newest = SECOND
    await coordinator.commit(100)
    coordinator.metadata.image = FIRST
    assert await coordinator.place() == 100
    coordinator.metadata.image, coordinator.metadata.newest = replace(FIRST, revision=2), None
    with pytest.raises(OttlaError) as refused:
        await coordinator.place()
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.rule(50)
async def test_an_offset_on_which_a_transaction_is_open_is_not_told_as_stable(coordinator: Coordinator) -> None:
    await coordinator.commit(4)
    key = encode_key(OffsetKey("g", TopicPartition("t", 1)))
    coordinator.shard.apply(
        Entry(key, encode_offset(CommittedOffset(9, topic_id=topic_id(1))), TransactionProducer(70, 0))
    )
    assert await coordinator.place() == 4
    for how in ({}, {"all": True}):
        (told,) = await coordinator.committed(require_stable=True, **how)
        assert (told.offset, told.error.code) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
