"""A part of a large request is below what a group-coordinator takes: in partitions, and in bytes of its one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from groups import EveryTopic, id_of
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.admin import transactions
from ottla.client import committed_offsets
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.timers import Moment
from ottla_core.model import TopicId, TopicPartition
from ottla_core.rpc.parts import PARTITIONS_AT_ONCE, commit_in_parts, in_parts
from ottla_group_coordinator import service as group_service
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import CallerIdentity, GroupSettings
from ottla_group_coordinator.machines.offsets import NO_GENERATION, ToCommit, decide_commit
from ottla_proto import group_pb2 as pb
from ottla_txn_coordinator import service as txn_service


def test_a_part_is_at_most_half_of_what_the_coordinator_takes() -> None:
    assert 2 * PARTITIONS_AT_ONCE <= group_service._MOST_PARTITIONS
    assert 2 * transactions._DESCRIBED_AT_ONCE <= txn_service.MOST_TRANSACTIONS


def test_parts_hold_all_items_in_order_and_there_is_at_least_one() -> None:
    for count in (0, 1, PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE + 1):
        parts = list(in_parts(range(count)))
        assert [item for part in parts for item in part] == list(range(count))
        assert len(parts) == 1 + (count > PARTITIONS_AT_ONCE)
    assert list(commit_in_parts("g", (), len)) == [[]]


def in_parts_of_a_broker(group: str, offsets: Offsets) -> list[Offsets]:
    def size_bytes(item: tuple[TopicPartition, OffsetAndMetadata]) -> int:
        (topic, partition), (offset, metadata, leader_epoch, topic_id) = item
        return pb.OffsetToCommit(
            topic=topic,
            partition=partition,
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            topic_id=topic_id or b"",
        ).ByteSize()

    return [*map(dict, commit_in_parts(group, offsets.items(), size_bytes))]


@pytest.mark.parametrize("split", [committed_offsets.in_parts, in_parts_of_a_broker], ids=["client", "broker"])
@given(
    group=st.text(min_size=1, max_size=300),
    topic=st.text("topic", min_size=1, max_size=249),
    metadata=st.text(max_size=60),
    repeats=st.integers(0, 30),
    count=st.integers(1, 400),
)
@example(group="g", topic="t", metadata="€" * 60, repeats=30, count=400)
@example(group="g" * 300, topic="t" * 240, metadata="", repeats=0, count=2_000)
def test_the_records_of_each_part_are_one_batch(
    split: Callable[[str, Offsets], Iterable[Offsets]],
    group: str,
    topic: str,
    metadata: str,
    repeats: int,
    count: int,
) -> None:
    offsets = {
        TopicPartition(name, n % 10): OffsetAndMetadata(2**62, metadata * repeats, 2**30, id_of(name))
        for n in range(count)
        for name in [f"{topic}{n // 10}"]
    }
    parts = list(split(group, offsets))
    assert [offset for part in parts for offset in part.items()] == list(offsets.items())
    settings = GroupSettings(offset_metadata_max_bytes=1 << 20)
    for part in parts:
        commits = [
            ToCommit(at, each.offset, each.leader_epoch or 0, each.metadata, TopicId(each.topic_id or b""))
            for at, each in part.items()
        ]
        now = Moment(0, 2**41)
        decided = decide_commit(Group(group), CallerIdentity(""), NO_GENERATION, commits, EveryTopic(), settings, now)
        assert len(decided.records) == len(part)
        assert size_limit(decided.records) <= ShardLimits().max_batch_bytes
