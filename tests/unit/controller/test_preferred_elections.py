"""Elections by command, and back to preferred leaders for the balance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from images import after, topic_id
from partitions import P0, image_with, index_of, partition

from ottla_controller.machines.partition_index import leaderless, unpreferred
from ottla_controller.machines.preferred import ElectionType, check_once, decide_elect_leaders, is_whole, unbalanced
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER, PartitionId


def off_balance(image: ClusterImage, percentage: int) -> list[PartitionId]:
    return unbalanced(image, index_of(image), percentage)


def elect(image: ClusterImage, kind: ElectionType) -> tuple[Partition, int]:
    """`P0` afterwards, and the error code."""
    decision = decide_elect_leaders(image, kind, [P0])
    (outcome,) = decision.response
    assert bool(decision.writes) == (outcome.error is None)
    return after(image, decision).partitions[P0], outcome.error.code if outcome.error else 0


@pytest.mark.feature(114)
def test_the_preferred_leader_leads_again_where_it_is_in_sync() -> None:
    astray = partition(0, 1, 2, leader=1)
    now, code = elect(image_with(3, astray), ElectionType.PREFERRED)
    assert code == 0
    directories = {n: f"directory-{n}" for n in (0, 1, 2)}
    assert now == replace(
        astray, leader=0, directories=directories, leader_epoch=6, partition_epoch=10, mod_revision=201
    )


@pytest.mark.feature(114)
@pytest.mark.parametrize(
    ("before", "brokers", "code"),
    [
        (partition(0, 1), {0: {}, 1: {}}, ErrorCode.ELECTION_NOT_NEEDED),
        (partition(0, 1, leader=1, isr=(1,)), {0: {}, 1: {}}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (partition(0, 1, leader=1), {1: {}}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (partition(0, 1, leader=1), {0: {"fenced": True}, 1: {}}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (partition(0, 1, leader=1), {0: {"shutting_down": True}, 1: {}}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ],
)
def test_a_preferred_election_that_can_not_be_changes_nothing(
    before: Partition, brokers: dict[int, dict[str, bool]], code: ErrorCode
) -> None:
    image = image_with(brokers, before)
    assert elect(image, ElectionType.PREFERRED) == (image.partitions[P0], code)


@pytest.mark.rule(19)
@pytest.mark.feature(109)
@pytest.mark.parametrize(
    ("before", "brokers", "then", "code"),
    [
        (partition(0, 1, leader=NO_LEADER, isr=(0,)), {1: {}}, (1, True), 0),
        (partition(0, 1, leader=NO_LEADER), {1: {}}, (1, False), 0),  # it is in the ISR: clean
        (partition(0, 1), {1: {}}, (0, False), ErrorCode.ELECTION_NOT_NEEDED),
        (partition(0, 1, leader=NO_LEADER), {}, (NO_LEADER, False), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_unclean_election_by_command_needs_no_config(
    before: Partition, brokers: dict[int, dict[str, bool]], then: tuple[int, bool], code: int
) -> None:
    now, answered = elect(image_with(brokers, before), ElectionType.UNCLEAN)
    assert ((now.leader, now.recovering), answered) == (then, code)


def test_a_partition_that_is_not_there_has_its_own_error() -> None:
    unknown = PartitionId(topic_id(9), 0)
    decision = decide_elect_leaders(image_with(2, partition(0, 1, leader=1)), ElectionType.PREFERRED, [unknown, P0])
    errors = [o.error.code if o.error else 0 for o in decision.response]
    assert (errors, len(decision.writes)) == ([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0], 1)


def test_what_an_election_of_all_is_about() -> None:
    image = image_with(3, partition(0, 1), partition(1, 0, leader=0), partition(2, 0, leader=NO_LEADER))
    assert [p.partition for p in sorted(index_of(image).where(unpreferred))] == [1, 2]
    assert [p.partition for p in index_of(image).where(leaderless)] == [2]


@pytest.mark.feature(114)
def test_only_brokers_beyond_the_tolerated_share_get_their_leaders_back() -> None:
    mine = [partition(0, 1)] * 9 + [partition(0, 1, leader=1)]  # 10 % are led by another
    theirs = [partition(1, 0)] * 8 + [partition(1, 0, leader=0)] * 2  # 20 %
    image = image_with(2, *mine, *theirs)
    assert [p.partition for p in off_balance(image, 10)] == [18, 19]
    assert [p.partition for p in off_balance(image, 9)] == [9, 18, 19]
    assert off_balance(image, 20) == []


@pytest.mark.feature(114)
def test_who_is_not_back_in_sync_is_not_in_the_way_of_the_balance() -> None:
    lagging = [partition(0, 1, leader=1, isr=(1,)), partition(0, 1, leader=1)]
    assert [p.partition for p in off_balance(image_with(2, *lagging), 10)] == [1]
    assert off_balance(image_with({1: {}}, *lagging), 10) == []


@pytest.mark.parametrize(
    ("brokers", "isr", "whole"),
    [
        ({0: {}, 1: {}}, (0, 1), True),
        ({0: {}, 1: {}}, (0,), False),
        ({0: {}}, (0, 1), False),
        ({0: {}, 1: {"fenced": True}}, (0, 1), False),
        ({0: {}, 1: {"shutting_down": True}}, (0, 1), False),
    ],
)
def test_a_cluster_is_whole_with_all_preferred_leaders_and_all_replicas_in_sync(
    brokers: dict[int, dict[str, bool]], isr: tuple[int, ...], whole: bool
) -> None:
    image = image_with(brokers, partition(0, 1, isr=isr), partition(1, 0, leader=0))
    assert is_whole(image, index_of(image)) == whole


def test_a_request_names_a_partition_once() -> None:
    check_once([("t", 0), ("t", 1)])
    with pytest.raises(OttlaError, match="t-1 twice"):
        check_once([("t", 1), ("t", 0), ("t", 1)])
