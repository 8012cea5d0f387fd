"""A load that applies the newest record of each key comes to the state of one that applies all."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla_core.coordination.batches import StoredBatch
from ottla_core.coordination.replay import Replay
from ottla_core.coordination.shard import Entry, Marker, Record, TransactionProducer
from ottla_core.model import TopicPartition
from ottla_core.records.fence import ShardFence
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    encode_group,
    encode_key,
    encode_offset,
)
from ottla_group_coordinator.machines.shard import GroupShard

PRODUCERS = [TransactionProducer(number, 0) for number in range(3)]
OFFSET_KEYS = [OffsetKey(group, TopicPartition("t", number)) for group in "gh" for number in range(2)]

offset_entries = st.builds(
    lambda key, offset: Entry(encode_key(key), None if offset is None else encode_offset(CommittedOffset(offset))),
    st.sampled_from(OFFSET_KEYS),
    st.none() | st.integers(0, 1000),
)
group_entries = st.builds(
    lambda group, generation: Entry(
        encode_key(GroupKey(group)),
        None if generation is None else encode_group(GroupRecord("consumer", generation, None, None, 0)),
    ),
    st.sampled_from("gh"),
    st.none() | st.integers(0, 9),
)
pending = st.builds(
    lambda entry, producer: entry._replace(producer=producer),
    offset_entries.filter(lambda entry: entry.value is not None),
    st.sampled_from(PRODUCERS),
)
markers = st.builds(Marker, st.sampled_from(PRODUCERS), st.booleans(), st.just(0))


def batch_of(record: Record) -> StoredBatch:
    if isinstance(record, Entry) and record.producer is None:
        return StoredBatch(0, [(record.key, record.value)], [])
    return StoredBatch(0, [], [record])


def state(shard: GroupShard) -> object:
    """What is pending without an offset is not compared: it waits for its marker, and means nothing then."""
    groups = {name: (group.generation, group.state) for name, group in shard._groups.items()}
    return shard._offsets, groups, sorted(shard.pending)


def commit(offset: int, producer: TransactionProducer | None = None) -> Entry:
    return Entry(encode_key(OFFSET_KEYS[0]), encode_offset(CommittedOffset(offset)), producer)


@pytest.mark.rule(53)
@example([commit(5), commit(7, PRODUCERS[0])])
@example([commit(5, PRODUCERS[0]), commit(7), Marker(PRODUCERS[0], committed=True, coordinator_epoch=0)])
@given(st.lists(offset_entries | group_entries | pending | markers, max_size=40))
def test_newest_records_make_the_state_that_all_make(records: list[Record]) -> None:
    in_order, loaded, replay = GroupShard(GroupSettings()), GroupShard(GroupSettings()), Replay(ShardFence(1, 1), 0)
    for record in records:
        in_order.apply(record)
        replay.add(batch_of(record), loaded)
    while replay.go_on(loaded):
        pass
    assert state(loaded) == state(in_order)
    closing = [Marker(producer, committed=True, coordinator_epoch=0) for producer in PRODUCERS]
    for record in closing:
        in_order.apply(record)
        loaded.apply(record)
    assert state(loaded) == state(in_order), "whatever ends later"
