"""Brokers whose disks take no appends: they lead where nobody else can."""

from __future__ import annotations

import pytest
from partitions import P0, image_with, index_of, partition

from ottla_controller.machines.election import decide_reconcile, needs_election
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders, unbalanced
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.errors import ErrorCode

FULL = {"read_only": True}


def settled(image: ClusterImage) -> Partition:
    """How the only partition is once nothing is to be done."""
    before = image.partitions[P0]
    moved = decide_reconcile(image, needs_election(image)).response
    return moved[0].after if moved else before


@pytest.mark.story("full-disk-keeps-its-leadership")
def test_a_full_broker_hands_its_leadership_to_who_is_in_sync_and_has_room() -> None:
    image = image_with({0: FULL, 1: {}, 2: {}}, partition(0, 1, 2))
    after = settled(image)
    assert (after.leader, after.leader_epoch) == (1, 6)
    assert after.isr == (0, 1, 2), "it has all that there is"
    stable = image_with({0: FULL, 1: {}, 2: {}}, after)
    assert needs_election(stable) == []


@pytest.mark.story("full-disk-is-elected")
def test_who_has_room_is_elected_before_who_is_full() -> None:
    image = image_with({1: FULL, 2: {}}, partition(0, 1, 2))
    assert (settled(image).leader, settled(image).isr) == (2, (1, 2))


def test_a_full_broker_leads_for_readers_where_nobody_else_can() -> None:
    alone = image_with({0: FULL, 1: {}, 2: {}}, partition(0, 1, 2, isr=(0,)))
    assert needs_election(alone) == [], "those with room are not in sync"
    everybody = image_with({0: FULL, 1: FULL, 2: FULL}, partition(0, 1, 2))
    assert needs_election(everybody) == [], "nothing would be won by it"
    left_over = image_with({1: FULL, 2: FULL}, partition(0, 1, 2))
    assert settled(left_over).leader == 1
    going = image_with({0: {"shutting_down": True}, 1: FULL}, partition(0, 1))
    assert settled(going).leader == 1


@pytest.mark.story("full-disk-gets-its-leadership-back")
def test_a_full_disk_gets_no_leadership_back() -> None:
    image = image_with({0: FULL, 1: {}}, partition(0, 1, leader=1))
    assert unbalanced(image, index_of(image), 10) == []
    (outcome,) = decide_elect_leaders(image, ElectionType.PREFERRED, [P0]).response
    assert outcome.error is not None
    assert outcome.error.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert "the disk of the preferred leader 0 is full" in outcome.error.message
    alone = image_with(2, partition(0, 1, leader=1))
    assert unbalanced(alone, index_of(alone), 10) == [P0]
