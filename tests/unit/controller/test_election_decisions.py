"""Reconcile: what becomes of partitions whose brokers die, come back, are fenced, go, or may have lost records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from images import after, topic_id
from partitions import P0, image_with, partition

from ottla_controller.machines.availability import available
from ottla_controller.machines.decision import MAX_WRITES, Decision, ReliedOn, batches
from ottla_controller.machines.election import (
    Rules,
    Settled,
    decide_reconcile,
    needs_election,
    settled,
    to_hand_over,
)
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.model import NO_LEADER, PartitionId

LIVE: dict[str, Any] = {}
FENCED = {"fenced": True}
GOING = {"shutting_down": True}
TAIL_LOST = {"fenced": True, "unclean": True}
ALLOWED = {"unclean.leader.election.enable": "true"}


def reconcile(image: ClusterImage, within_grace: frozenset[int] = frozenset()) -> Decision[tuple[Settled, ...]]:
    """The first transaction of it."""
    return decide_reconcile(image, needs_election(image, within_grace)[:MAX_WRITES], within_grace)


def reconciled(image: ClusterImage, within_grace: frozenset[int] = frozenset()) -> ClusterImage:
    return after(image, reconcile(image, within_grace))


def becomes(
    before: Partition,
    brokers: dict[int, dict[str, Any]],
    *,
    within_grace: frozenset[int] = frozenset(),
    configs: dict[str, str] | None = None,
) -> tuple[int, tuple[int, ...], int, int]:
    """Leader, ISR, and by how much leader epoch and partition epoch grew. Looking again changes nothing more.

    Where the ISR is empty, the ELR stands in its place, negative ids: -1 - id.
    """
    image = reconciled(image_with(brokers, before, configs=configs), within_grace)
    assert needs_election(image, within_grace) == []
    now = image.partitions[P0]
    epochs = now.leader_epoch - before.leader_epoch, now.partition_epoch - before.partition_epoch
    return now.leader, now.isr or tuple(-1 - b for b in now.elr), *epochs


def elr(*brokers: int) -> tuple[int, ...]:
    return tuple(-1 - b for b in brokers)


@pytest.mark.rule(14)
@pytest.mark.feature(110)
@pytest.mark.feature(120)
@pytest.mark.parametrize(
    ("before", "brokers", "then"),
    [
        # Nothing is wrong, or nothing that could be better.
        (partition(0, 1, 2), {0: LIVE, 1: LIVE, 2: LIVE}, (0, (0, 1, 2), 0, 0)),
        (partition(0, 1, 2, isr=(0,)), {0: LIVE, 1: LIVE}, (0, (0,), 0, 0)),
        (partition(0, leader=NO_LEADER), {1: LIVE}, (NO_LEADER, elr(0), 0, 1)),
        # The leader is gone: the first of the ISR in the order of the replicas.
        (partition(0, 1, 2), {1: LIVE, 2: LIVE}, (1, (1, 2), 1, 1)),
        (partition(0, 1, 2, isr=(2, 0, 1)), {1: LIVE, 2: LIVE}, (1, (2, 1), 1, 1)),
        (partition(0, 1, 2, isr=(0, 2)), {1: LIVE, 2: LIVE}, (2, (2,), 1, 1)),
        (partition(0, 1, 2), {0: FENCED, 1: LIVE, 2: LIVE}, (1, (1, 2), 1, 1)),
        (partition(0, 1, 2), {0: LIVE, 1: FENCED}, (0, (0,), 0, 1)),
        # Only a follower is: the leader and its epoch stay.
        (partition(0, 1, 2), {0: LIVE, 2: LIVE}, (0, (0, 2), 0, 1)),
        (partition(0, 1, 2), {0: LIVE}, (0, (0,), 0, 1)),
        # Nobody is left: no leader, and all who have everything are eligible.
        (partition(1, 0, 2), {}, (NO_LEADER, elr(1, 0, 2), 1, 1)),
        (partition(0, 1, 2, leader=2, isr=(0, 2)), {1: LIVE}, (NO_LEADER, elr(0, 2), 1, 1)),
        (partition(0, 1, 2, leader=NO_LEADER, isr=(2, 0)), {0: LIVE}, (0, (0,), 1, 1)),
        (partition(0, 1, leader=NO_LEADER, isr=(1,)), {0: LIVE}, (NO_LEADER, elr(1), 0, 1)),
        (partition(0, 1, leader=NO_LEADER, isr=(1,)), {0: LIVE, 1: LIVE}, (1, (1,), 1, 1)),
    ],
)
def test_leaders_are_elected_from_the_isr_and_who_is_gone_leaves_it(
    before: Partition, brokers: dict[int, dict[str, Any]], then: tuple[int, tuple[int, ...], int, int]
) -> None:
    assert becomes(before, brokers) == then


@pytest.mark.parametrize(
    ("before", "brokers", "then"),
    [
        (partition(0, 1, 2), {0: GOING, 1: LIVE, 2: LIVE}, (1, (1, 2), 1, 1)),
        (partition(0, 1, 2), {0: LIVE, 1: GOING, 2: LIVE}, (0, (0, 2), 0, 1)),
        # The last one serves to the end.
        (partition(0, 1, isr=(0,)), {0: GOING, 1: LIVE}, (0, (0,), 0, 0)),
        (partition(0, 1), {0: GOING}, (0, (0,), 0, 1)),
        (partition(0, 1), {0: GOING, 1: GOING}, (0, (0, 1), 0, 0)),
        (partition(0, 1), {1: GOING}, (1, (1,), 1, 1)),
        (partition(0, 1, leader=NO_LEADER, isr=(1,)), {0: LIVE, 1: GOING}, (1, (1,), 1, 1)),
    ],
)
def test_who_shuts_down_gives_leadership_away_where_another_can_take_it(
    before: Partition, brokers: dict[int, dict[str, Any]], then: tuple[int, tuple[int, ...], int, int]
) -> None:
    assert becomes(before, brokers) == then


@pytest.mark.story("torn-log-stays-in-an-isr-of-one")
@pytest.mark.rule(21)
@pytest.mark.parametrize(
    ("before", "brokers", "then"),
    [
        (partition(0, 1, 2), {0: TAIL_LOST, 1: LIVE, 2: LIVE}, (1, (1, 2), 1, 1)),
        (partition(0, 1, 2), {0: LIVE, 1: TAIL_LOST, 2: LIVE}, (0, (0, 2), 0, 1)),
        # It leaves for one who is away, too: that one may have what it lost.
        (partition(0, 1), {0: TAIL_LOST}, (NO_LEADER, elr(1), 1, 1)),
        (partition(0, 1, leader=NO_LEADER), {0: TAIL_LOST}, (NO_LEADER, elr(1), 0, 1)),
        # Also where it is the last: then the logs are asked.
        (partition(0, 1, isr=(0,)), {0: TAIL_LOST, 1: LIVE}, (NO_LEADER, (), 1, 1)),
        (partition(0, 1, leader=1), {0: TAIL_LOST, 1: TAIL_LOST}, (NO_LEADER, (), 1, 1)),
        # Once it is unfenced it is like any other.
        (partition(0, 1, leader=NO_LEADER, isr=(0,)), {0: {"unclean": True}}, (0, (0,), 1, 1)),
        (partition(0, 1), {0: {"unclean": True}, 1: LIVE}, (0, (0, 1), 0, 0)),
    ],
)
def test_who_may_have_lost_records_leaves_every_isr(
    before: Partition, brokers: dict[int, dict[str, Any]], then: tuple[int, tuple[int, ...], int, int]
) -> None:
    assert becomes(before, brokers) == then


def test_a_new_leader_of_an_unclean_partition_keeps_it_marked() -> None:
    recovering = replace(partition(0, 1), recovering=True)
    assert reconciled(image_with({1: LIVE}, recovering)).partitions[P0].recovering


@pytest.mark.rule(19)
@pytest.mark.feature(109)
def test_an_unclean_election_is_made_only_where_it_is_allowed_and_is_marked() -> None:
    before = partition(0, 1, 2, leader=NO_LEADER, isr=(0,))
    assert becomes(before, {1: LIVE, 2: LIVE}) == (NO_LEADER, elr(0), 0, 1)
    assert becomes(before, {1: LIVE, 2: LIVE}, configs=ALLOWED) == (1, (1,), 1, 1)
    image = image_with({2: LIVE}, before, configs=ALLOWED)
    (moved,) = reconcile(image).response
    assert (moved.unclean, moved.after.recovering, moved.after.leader) == (True, True, 2)


@pytest.mark.rule(19)
def test_an_unclean_election_is_the_last_resort() -> None:
    assert becomes(partition(0, 1, 2, isr=(0, 2)), {1: LIVE, 2: LIVE}, configs=ALLOWED) == (2, (2,), 1, 1)
    assert becomes(partition(0, 1, isr=(0,)), {0: GOING, 1: LIVE}, configs=ALLOWED) == (0, (0,), 0, 0)
    assert becomes(partition(0, 1, isr=(0,)), {1: FENCED}, configs=ALLOWED) == (NO_LEADER, elr(0), 1, 1)
    assert becomes(partition(0, 1, isr=(0,)), {1: GOING}, configs=ALLOWED) == (NO_LEADER, elr(0), 1, 1)


@pytest.mark.story("unclean-election-of-an-empty-disk")
@pytest.mark.rule(19)
def test_an_unclean_leader_was_in_sync_once_if_possible_and_has_an_empty_disk_only_where_nobody_else_is_there() -> None:
    before = replace(
        partition(0, 1, 2, leader=NO_LEADER, isr=()),
        last_known_elr=(2, 0),
        directories={0: "directory-0", 2: "directory-2"},
    )
    empty = {"directory_id": "another"}
    assert becomes(before, {0: empty, 1: LIVE, 2: LIVE}, configs=ALLOWED) == (2, (2,), 1, 1)
    assert becomes(before, {0: empty, 1: LIVE}, configs=ALLOWED) == (1, (1,), 1, 1)
    assert becomes(before, {0: empty}, configs=ALLOWED) == (0, (0,), 1, 1)


@pytest.mark.rule(19)
def test_the_clusters_default_allows_it_where_the_topic_says_nothing_and_not_against_the_topic() -> None:
    before = partition(0, 1, isr=(0,))
    allowed = image_with({1: LIVE}, before, cluster_configs=ALLOWED)
    assert reconciled(allowed).partitions[P0].leader == 1
    against = image_with(
        {1: LIVE}, before, cluster_configs=ALLOWED, configs={"unclean.leader.election.enable": "false"}
    )
    assert reconciled(against).partitions[P0].leader == NO_LEADER


@pytest.mark.parametrize(
    ("before", "brokers", "within_grace", "then"),
    [
        (partition(0, 1, 2), {}, {0, 1, 2}, (0, (0, 1, 2), 0, 0)),
        (partition(0, 1, 2), {0: FENCED}, {0, 1}, (0, (0, 1), 0, 1)),
        # The leader is dead: whoever is there leads, the others stay in sync, and nobody is elected who is not there.
        (partition(0, 1, 2), {2: LIVE}, {1}, (2, (1, 2), 1, 1)),
        (partition(0, 1, 2), {}, {1}, (0, (0, 1, 2), 0, 0)),
        (partition(0, 1, 2, isr=(0, 1)), {2: LIVE}, {1}, (0, (0, 1), 0, 0)),
    ],
)
def test_who_is_spared_counts_as_there_and_is_not_elected(
    before: Partition,
    brokers: dict[int, dict[str, Any]],
    within_grace: set[int],
    then: tuple[int, tuple[int, ...], int, int],
) -> None:
    assert becomes(before, brokers, within_grace=frozenset(within_grace), configs=ALLOWED) == then


def test_a_change_relies_on_the_partition_and_on_the_lives_of_who_stays() -> None:
    (write,) = reconcile(image_with({1: LIVE, 2: LIVE}, partition(0, 1, 2))).writes
    assert set(write.relied_on) == {
        ReliedOn(("partition", P0), mod_revision=150),
        ReliedOn(("broker", 1), create_revision=101),
        ReliedOn(("broker", 2), create_revision=102),
    }


@pytest.mark.feature(120)
def test_a_brokers_death_over_many_partitions_is_cut_into_transactions_leaders_first() -> None:
    partitions = [partition(*((0, 1, 2), (1, 2, 0), (2, 0, 1))[n % 3]) for n in range(1_000)]
    image = image_with({1: LIVE, 2: LIVE}, *partitions)
    rounds = []
    while (decision := reconcile(image)).writes:
        (batch,) = batches(decision.writes)
        assert len(batch.changes) <= MAX_WRITES
        rounds.append(sum(s.elected for s in decision.response))
        image = after(image, decision)
    assert rounds == [100, 100, 100, 34, 0, 0, 0, 0, 0, 0]
    assert all(p.leader in p.isr and set(p.isr) == {1, 2} for p in image.partitions.values())


def test_what_was_settled_or_deleted_meanwhile_is_passed_over() -> None:
    image = image_with({1: LIVE}, partition(0, 1), partition(0, 1), partition(1, 0, isr=(1,)))
    gone = PartitionId(topic_id(9), 0)
    ids = sorted(image.partitions)
    assert [s.id for s in decide_reconcile(image, [ids[1], ids[2], gone]).response] == [ids[1]]


def test_what_a_broker_that_goes_still_has_to_hand_over() -> None:
    image = image_with(
        {0: GOING, 1: LIVE, 2: LIVE},
        partition(0, 1, 2),  # leads it
        partition(1, 0, 2),  # follows
        partition(0, 1, isr=(0,)),  # nobody else is in sync
        partition(1, 2),
    )
    partitions = list(image.partitions)
    assert list(to_hand_over(image, 0, partitions)) == partitions[:2]
    assert not list(to_hand_over(reconciled(image), 0, partitions))


def test_a_settled_partition_is_the_same_object() -> None:
    there = available(image_with(2, partition(0, 1)))
    before = partition(0, 1)
    assert settled(before, there, Rules(2, False)) is before
