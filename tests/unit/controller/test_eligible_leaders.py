"""Eligible leader replicas: who stays eligible as the ISR shrinks, who never, and what changes of min ISR do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from images import after
from partitions import P0, image_with, partition

from ottla_controller.machines.configs import Op, OpKind, Resource, ResourceKind, decide_alter_configs
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.election import decide_reconcile, needs_election
from ottla_controller.machines.isr import Proposal, decide_alter_partition
from ottla_controller.machines.min_isr import decide_remove_own_values, with_elrs_emptied
from ottla_controller.machines.partition import with_isr, with_replicas
from ottla_core.cluster.image import Change, ClusterImage, Partition, ResourceConfigs
from ottla_core.errors import OttlaError
from ottla_core.model import NO_LEADER, PartitionId

LIVE: dict[str, Any] = {}
TAIL_LOST = {"fenced": True, "unclean": True}
NEW_DISK = {"fenced": True, "directory_id": "another"}
TWO = {"min.insync.replicas": "2"}


def holding(isr: tuple[int, ...], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()) -> Partition:
    leader = isr[0] if isr else NO_LEADER
    directories = {b: f"directory-{b}" for b in (*isr, *elr, *last)}
    return replace(partition(0, 1, 2, leader=leader, isr=isr), elr=elr, last_known_elr=last, directories=directories)


def lists(partition: Partition) -> tuple[tuple[int, ...], ...]:
    return partition.isr, partition.elr, partition.last_known_elr


@pytest.mark.story("who-leaves-too-small-an-isr-is-forgotten")
@pytest.mark.rule(8, 14)
@pytest.mark.parametrize(
    ("before", "isr", "min_isr", "then"),
    [
        # Large enough: nobody else is eligible.
        (holding((0, 1, 2)), (0, 1), 2, ((0, 1), (), ())),
        # Too small: from then on who leaves has all that is committed.
        (holding((0, 1)), (0,), 2, ((0,), (1,), ())),
        (holding((0, 1, 2)), (0,), 2, ((0,), (1, 2), ())),
        (holding((0,), (1,)), (), 2, ((), (0, 1), ())),
        (holding((0, 1, 2)), (), 1, ((), (0, 1, 2), ())),
        # Too small still, and one of them is back.
        (holding((0,), (1,)), (0, 2), 3, ((0, 2), (1,), ())),
        # Large enough again.
        (holding((0,), (1,), (2,)), (0, 2), 2, ((0, 2), (), ())),
        # More than there are replicas is asked for: all of them count.
        (holding((0, 1, 2)), (0, 1), 9, ((0, 1), (2,), ())),
    ],
)
def test_who_leaves_an_isr_that_is_too_small_stays_eligible(
    before: Partition, isr: tuple[int, ...], min_isr: int, then: tuple[tuple[int, ...], ...]
) -> None:
    now = with_isr(before, isr, min_isr)
    assert lists(now) == then
    assert (now.partition_epoch, now.leader_epoch) == (before.partition_epoch + 1, before.leader_epoch)


def test_who_may_have_lost_something_is_remembered_and_no_more() -> None:
    first = with_isr(holding((0,), (1, 2)), (0,), 2, lost={1})
    assert lists(first) == ((0,), (2,), (1,))
    second = with_isr(first, (), 2, lost={0})
    assert lists(second) == ((), (2,), (0, 1))
    assert lists(with_isr(second, (1,), 2)) == ((1,), (2,), (0,)), "it is in sync again"
    assert lists(with_replicas(second, (0, 1))) == ((), (), (0, 1)), "who has no replica any more is nothing"


def reconciled(before: Partition, brokers: dict[int, dict[str, Any]]) -> Partition:
    image = image_with(brokers, before, configs=TWO)
    now = after(image, decide_reconcile(image, needs_election(image)))
    assert needs_election(now) == []
    return now.partitions[P0]


@pytest.mark.story("empty-disk-is-elected")
@pytest.mark.rule(14, 21)
@pytest.mark.parametrize(
    ("before", "brokers", "leader", "then"),
    [
        # The leader is gone, and the ELR leads; the chosen one alone is in sync.
        (holding((0,), (1, 2)), {1: LIVE, 2: LIVE}, 1, ((1,), (0, 2), ())),
        (holding((), (0, 2)), {2: LIVE}, 2, ((2,), (0,), ())),
        # Not as long as the ISR can serve.
        (holding((0,), (1,)), {0: {"shutting_down": True}, 1: LIVE}, 0, ((0,), (1,), ())),
        # The last one is back with an empty disk: the others lead, and it is not even waited for.
        (holding((0,), (1,)), {0: NEW_DISK, 1: LIVE}, 1, ((1,), (), (0,))),
        (holding((0,), (1,)), {0: NEW_DISK}, NO_LEADER, ((), (1,), (0,))),
        (holding((0,)), {0: NEW_DISK, 1: LIVE, 2: LIVE}, NO_LEADER, ((), (), (0,))),
        # One of the ELR is: it has nothing.
        (holding((0,), (1, 2)), {0: LIVE, 1: NEW_DISK}, 0, ((0,), (2,), (1,))),
        (holding((0,), (1, 2)), {0: LIVE, 1: TAIL_LOST}, 0, ((0,), (2,), (1,))),
        # A lease's end alone takes nobody out.
        (holding((0,), (1,)), {}, NO_LEADER, ((), (0, 1), ())),
    ],
)
def test_elections_from_the_elr(
    before: Partition, brokers: dict[int, dict[str, Any]], leader: int, then: tuple[tuple[int, ...], ...]
) -> None:
    now = reconciled(before, brokers)
    assert (now.leader, lists(now)) == (leader, then)
    assert not now.recovering


def test_the_directory_of_each_member_is_the_one_it_joined_with() -> None:
    image = image_with({0: LIVE, 1: LIVE, 2: {"directory_id": "new-disk"}}, holding((0, 1)), configs=TWO)
    proposal = Proposal(P0, 5, 9, ((0, -1), (1, 101), (2, 102)))
    now = after(image, decide_alter_partition(image, 0, 100, [proposal])).partitions[P0]
    assert now.directories == {0: "directory-0", 1: "directory-1", 2: "new-disk"}


def test_of_an_older_release_no_directory_is_noted_and_none_is_held_against_anybody() -> None:
    now = reconciled(replace(holding((0, 1)), directories={}), {0: LIVE, 1: {"fenced": True}})
    assert (now.leader, lists(now)) == (0, ((0,), (1,), ()))
    assert now.directories == {0: "directory-0", 1: "directory-1"}


def test_a_leader_that_shrinks_its_isr_too_far_leaves_eligible_replicas() -> None:
    image = image_with(3, holding((0, 1)), configs=TWO)
    now = after(image, decide_alter_partition(image, 0, 100, [Proposal(P0, 5, 9, ((0, -1),))])).partitions[P0]
    assert lists(now) == ((0,), (1,), ())


# ---- min.insync.replicas ---------------------------------------------------------------------------------------------


def altered(image: ClusterImage, kind: ResourceKind, name: str, value: str) -> Decision[None]:
    ops = [Op("min.insync.replicas", OpKind.SET, value)]
    return with_elrs_emptied(image, decide_alter_configs(image, Resource(kind, name), ops))


@pytest.mark.story("min-isr-altered-under-an-elr")
@pytest.mark.parametrize("value", ["1", "3"])
def test_a_change_of_min_isr_empties_the_elrs_before_a_leader_can_see_it(value: str) -> None:
    leaderless = holding((), (1, 2))
    image = image_with(3, holding((0,), (1,), (2,)), holding((0, 1, 2)), leaderless, configs=TWO)
    decision = altered(image, ResourceKind.TOPIC, "t", value)
    assert [w.change.key[0] for w in decision.writes] == ["partition", "topic"]
    now = after(image, decision)
    first, second, third = (now.partitions[PartitionId(P0.topic_id, n)] for n in range(3))
    assert lists(first) == ((0,), (), ())
    assert lists(second) == ((0, 1, 2), (), ())
    assert lists(third) == ((), (1, 2), ()), "nobody commits anything there before it is led by the new value"


def test_the_clusters_value_counts_where_the_topic_has_none_and_other_configs_empty_nothing() -> None:
    image = image_with(3, holding((0,), (1,)), cluster_configs=TWO)
    assert len(altered(image, ResourceKind.BROKER, "", "1").writes) == 2
    own = image_with(3, holding((0,), (1,)), configs=TWO, cluster_configs=TWO)
    assert len(altered(own, ResourceKind.BROKER, "", "1").writes) == 1
    assert altered(own, ResourceKind.TOPIC, "t", "2").writes == ()
    ops = [Op("retention.ms", OpKind.SET, "1000")]
    decision = decide_alter_configs(own, Resource(ResourceKind.TOPIC, "t"), ops)
    assert with_elrs_emptied(own, decision).writes == decision.writes


@pytest.mark.story("min-isr-of-one-broker")
def test_min_isr_has_one_value_for_the_cluster() -> None:
    image = image_with(3, holding((0,)), configs=TWO)
    with pytest.raises(OttlaError, match="one value for the whole cluster"):
        altered(image, ResourceKind.BROKER, "1", "1")
    older = {"min.insync.replicas": "1", "log.cleaner.threads": "2"}
    image = image.with_changes([Change(("configs", "broker", "1"), ResourceConfigs(older, 150))], 250)
    image = after(image, decide_remove_own_values(image))
    assert image.configs["broker", "1"].values == {"log.cleaner.threads": "2"}
    assert decide_remove_own_values(image).writes == ()
