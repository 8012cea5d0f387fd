"""Which coordinator owns each shard: balanced, sticky, and with an epoch that only grows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from images import after, image_of, topic_id

from ottla_controller.machines.decision import MAX_WRITES, ReliedOn
from ottla_controller.machines.election import decide_reconcile
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders
from ottla_controller.machines.shards import (
    decide_release_shard,
    decide_remove_dead_coordinator,
    decide_shards,
    unassigned_kinds,
)
from ottla_controller.machines.topics import NewTopic, decide_create_internal_topic
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Coordinator, Shard
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER, PartitionId


def with_offsets_topic(image: ClusterImage, partitions: int = 50) -> ClusterImage:
    new = NewTopic("__consumer_offsets", partitions, 1)
    return after(image, decide_create_internal_topic(image, new, topic_id=topic_id(1)))


def registered(image: ClusterImage, *instances: int, epoch: int | None = None) -> ClusterImage:
    """With these group coordinators, whose epochs are 500 and their id, or as given."""
    coordinators = (Coordinator("group", n, epoch or 500 + n, f"host-{n}:9660") for n in instances)
    return image.with_changes([Change(keys.coordinator("group", c.id), c) for c in coordinators], image.revision + 1)


def gone(image: ClusterImage, instance: int) -> ClusterImage:
    return image.with_changes([Change(keys.coordinator("group", instance), None)], image.revision + 1)


def settled(image: ClusterImage) -> ClusterImage:
    while unassigned_kinds(image):
        image = after(image, decide_shards(image, "group"))
    return image


def owners(image: ClusterImage) -> dict[int, int]:
    return {number: shard.owner for (_, number), shard in image.shards.items()}


def load(image: ClusterImage) -> list[int]:
    return sorted(Counter(owners(image).values()).values())


def test_nothing_is_given_before_there_are_a_topic_and_a_coordinator() -> None:
    assert unassigned_kinds(registered(image_of(), 1)) == []
    assert unassigned_kinds(with_offsets_topic(image_of())) == []
    assert unassigned_kinds(registered(with_offsets_topic(image_of()), 1)) == ["group"]


def test_shards_are_spread_and_stay_where_they_are() -> None:
    two = settled(registered(with_offsets_topic(image_of()), 1, 2))
    assert load(two) == [25, 25]
    assert {(s.incarnation, s.epoch) for s in two.shards.values()} == {(501, 1), (502, 1)}
    three = settled(registered(two, 3))
    assert load(three) == [16, 17, 17]
    moved = [n for n, owner in owners(three).items() if owner != owners(two)[n]]
    assert {owners(three)[n] for n in moved} == {3}, "none goes from one to the other of those who were there"
    assert {three.shards["group", n].epoch for n in moved} == {2}


def test_who_has_one_more_keeps_it() -> None:
    image = registered(with_offsets_topic(image_of(), 3), 1, 2)
    given_so = {0: Shard(2, 502, 1), 1: Shard(1, 501, 1), 2: Shard(2, 502, 1)}
    image = image.with_changes([Change(keys.shard("group", n), s) for n, s in given_so.items()], image.revision + 1)
    assert unassigned_kinds(image) == []


def test_who_dies_leaves_its_shards_to_the_others_under_a_higher_epoch() -> None:
    image = settled(registered(with_offsets_topic(image_of()), 1, 2))
    left = settled(gone(image, 1))
    assert load(left) == [50]
    for number, owner in owners(image).items():
        assert left.shards["group", number].epoch == (2 if owner == 1 else 1)
    assert unassigned_kinds(gone(left, 2)) == [], "nobody is there to be given them, and they keep their epochs"


def test_a_coordinator_that_has_started_again_is_another() -> None:
    image = settled(registered(with_offsets_topic(image_of()), 1, 2))
    again = registered(image, 1, epoch=900)
    assert image.owner_of("group", 0) is not None
    assert {again.owner_of("group", n) is None for n, owner in owners(image).items() if owner == 1} == {True}
    back = settled(again)
    assert owners(back) == owners(image), "it has its shards again"
    assert {s.epoch for s in back.shards.values() if s.incarnation == 900} == {2}


def test_a_shard_is_given_to_a_life_that_is_still_registered() -> None:
    image = registered(with_offsets_topic(image_of(), 2), 1)
    first = decide_shards(image, "group")
    shard = ReliedOn(keys.shard("group", 0), mod_revision=0)
    owner = ReliedOn(keys.coordinator("group", 1), create_revision=501)
    assert set(first.writes[0].relied_on) == {shard, owner}
    given_once = after(image, first)
    again = decide_shards(registered(given_once, 1, epoch=900), "group")
    seen = ReliedOn(keys.shard("group", 0), mod_revision=given_once.revision)
    assert seen in again.writes[0].relied_on


def test_many_shards_take_several_transactions() -> None:
    image = registered(with_offsets_topic(image_of(), 3 * MAX_WRITES), 1, 2)
    assert len(decide_shards(image, "group").writes) == MAX_WRITES
    assert load(settled(image)) == [150, 150]


@given(st.lists(st.tuples(st.sampled_from(["come", "go", "again"]), st.integers(0, 4)), max_size=12))
def test_whoever_comes_and_goes_shards_are_balanced_and_epochs_only_grow(steps: list[tuple[str, int]]) -> None:
    image, epoch = with_offsets_topic(image_of(), 7), 1000
    for step, instance in steps:
        epoch += 1
        image = gone(image, instance) if step == "go" else registered(image, instance, epoch=epoch)
        before, image = image, settled(image)
        live = {n for _, n in image.coordinators}
        if live:
            assert {*owners(image).values()} <= live
            assert max(Counter(owners(image).values()).values()) <= -(-7 // len(live))
        for key, shard in image.shards.items():
            was = before.shards.get(key, Shard())
            changed = (was.owner, was.incarnation) != (shard.owner, shard.incarnation)
            assert shard.epoch == was.epoch + changed


# ---- releasing -------------------------------------------------------------------------------------------------------


def test_an_owner_that_begins_anew_has_a_higher_epoch() -> None:
    image = settled(registered(with_offsets_topic(image_of(), 2), 1))
    released = decide_release_shard(image, "group", 1, 1, 1, 501)
    assert released.response == Shard(1, 501, 2)
    image = after(image, released)
    assert (image.shards["group", 1].epoch, image.shards["group", 0].epoch) == (2, 1)
    repeated = decide_release_shard(image, "group", 1, 1, 1, 501)
    assert (repeated.response, repeated.writes) == (image.shards["group", 1], ())


def test_what_is_no_owners_to_release() -> None:
    image = settled(registered(with_offsets_topic(image_of(), 2), 1, 2))
    number = next(n for n, owner in owners(image).items() if owner == 1)
    other = decide_release_shard(image, "group", number, 1, 2, 502)
    assert (other.response.owner, other.writes) == (1, ())
    for arguments, code in (
        (("group", 9, 1, 1, 501), ErrorCode.INVALID_REQUEST),
        (("group", 0, 1, 3, 503), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (("txn", 0, 1, 1, 501), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (("group", 0, 1, 1, 400), ErrorCode.STALE_BROKER_EPOCH),
    ):
        with pytest.raises(OttlaError) as refused:
            decide_release_shard(image, *arguments)
        assert refused.value.code == code


def test_a_proven_death_ends_that_registration_and_no_later_one() -> None:
    image = registered(image_of(), 1)
    decision = decide_remove_dead_coordinator(image, "group", 1, 501)
    assert decision.response
    assert not after(image, decision).coordinators
    assert decide_remove_dead_coordinator(registered(image, 1, epoch=900), "group", 1, 501).writes == ()
    assert decide_remove_dead_coordinator(image, "group", 2, 501).writes == ()


# ---- lost records ----------------------------------------------------------------------------------------------------


def leaderless(image: ClusterImage, number: int) -> tuple[ClusterImage, PartitionId]:
    """The partition's only member of the ISR, broker 0, is away; broker 1 has a replica."""
    id_ = PartitionId(topic_id(1), number)
    lost = replace(image.partitions[id_], replicas=(0, 1), leader=NO_LEADER, isr=(0,), leader_epoch=4)
    changes = [Change(keys.partition(id_), lost), Change(keys.broker(0), None)]
    return image.with_changes(changes, image.revision + 1), id_


@pytest.mark.rule(19)
def test_an_unclean_election_gives_the_shard_a_higher_epoch() -> None:
    image, id_ = leaderless(settled(registered(with_offsets_topic(image_of(2), 2), 1)), 1)
    decision = decide_elect_leaders(image, ElectionType.UNCLEAN, [id_])
    assert [write.change.key for write in decision.writes] == [keys.shard("group", 1), keys.partition(id_)]
    image = after(image, decision)
    assert image.partitions[id_].leader == 1
    assert (image.shards["group", 1].epoch, image.shards["group", 0].epoch) == (2, 1)


def test_no_other_election_touches_a_shard() -> None:
    image = settled(registered(with_offsets_topic(image_of(2), 1), 1))
    id_ = PartitionId(topic_id(1), 0)
    moved = replace(image.partitions[id_], replicas=(0, 1), leader=0, isr=(0, 1))
    image = image.with_changes([Change(keys.partition(id_), moved), Change(keys.broker(0), None)], image.revision + 1)
    decision = decide_reconcile(image, [id_])
    assert [write.change.key for write in decision.writes] == [keys.partition(id_)]
