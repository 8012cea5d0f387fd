"""A part of a large request is below what a group-coordinator takes: in partitions, and in bytes of its one batch."""

from __future__ import annotations

from groups import EveryTopic, id_of
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin import transactions
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


@given(
    group=st.text(min_size=1, max_size=300),
    topic=st.text("topic", min_size=1, max_size=249),
    metadata=st.text(max_size=60),
    repeats=st.integers(0, 30),
    count=st.integers(1, 400),
)
def test_the_records_of_each_part_are_one_batch(
    group: str, topic: str, metadata: str, repeats: int, count: int
) -> None:
    offsets = [
        pb.OffsetToCommit(
            topic=f"{topic}{n // 10}",
            partition=n % 10,
            offset=2**62,
            leader_epoch=2**30,
            metadata=metadata * repeats,
            topic_id=id_of(f"{topic}{n // 10}"),
        )
        for n in range(count)
    ]
    parts = list(commit_in_parts(pb.CommitOffsetsRequest(group=group, generation=-1), offsets))
    assert [offset for part in parts for offset in part.offsets] == offsets
    settings = GroupSettings(offset_metadata_max_bytes=1 << 20)
    for part in parts:
        assert (part.group, part.generation) == (group, -1)
        commits = [
            ToCommit(TopicPartition(o.topic, o.partition), o.offset, o.leader_epoch, o.metadata, TopicId(o.topic_id))
            for o in part.offsets
        ]
        now = Moment(0, 2**41)
        decided = decide_commit(Group(group), CallerIdentity(""), NO_GENERATION, commits, EveryTopic(), settings, now)
        assert len(decided.records) == len(part.offsets)
        assert size_limit(decided.records) <= ShardLimits().max_batch_bytes
