"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla_controller.machines.placement import (
    Replicas,
    assign_replicas,
    check_assignments,
    start_of,
)
from ottla_core.errors import ErrorCode, OttlaError

LIVE = {0: True, 1: True, 2: True, 3: False}


def racks(*names: str) -> dict[int, str]:
    return dict(enumerate(names))


@pytest.mark.feature(113)
def test_leaders_go_round_the_brokers_from_the_start() -> None:
    placed = assign_replicas(racks("", "", ""), 6, 1, start=1)
    assert placed == [(1,), (2,), (0,), (1,), (2,), (0,)]


def test_the_followers_of_one_leader_differ_so_that_its_load_spreads_when_it_dies() -> None:
    placed = assign_replicas(racks(*[""] * 6), 30, 3, start=0)
    followers = {f for leader, *rest in placed if leader == 0 for f in rest}
    assert followers == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("brokers", [3, 4, 6])
def test_what_one_broker_leads_is_led_by_all_others_when_it_dies(brokers: int) -> None:
    placed = assign_replicas(racks(*[""] * brokers), 60 * brokers, 3, start=0)
    for dead in range(brokers):
        heirs = Counter(replicas[1] for replicas in placed if replicas[0] == dead)
        assert set(heirs) == set(range(brokers)) - {dead}
        assert max(heirs.values()) - min(heirs.values()) <= 2


@pytest.mark.feature(113)
def test_replicas_are_even_too_not_only_leaders() -> None:
    placed = assign_replicas(racks("", "", "", ""), 2, 2, start=0)
    assert sorted(b for replicas in placed for b in replicas) == [0, 1, 2, 3]


@pytest.mark.feature(113)
def test_replicas_of_a_partition_lie_in_different_racks() -> None:
    placed = assign_replicas(racks("a", "a", "b", "b", "c", "c"), 12, 3, start=0)
    assert all(sorted("aabbcc"[b] for b in replicas) == ["a", "b", "c"] for replicas in placed)
    assert set(Counter(b for replicas in placed for b in replicas).values()) == {6}


def test_with_fewer_racks_than_replicas_every_rack_has_one() -> None:
    placed = assign_replicas(racks("a", "a", "a", "b"), 8, 3, start=0)
    assert all(3 in replicas for replicas in placed)


def test_racks_do_not_count_where_a_broker_has_none() -> None:
    with_one_missing = assign_replicas(racks("a", "a", "b", ""), 8, 2, start=0)
    assert with_one_missing == assign_replicas(racks("", "", "", ""), 8, 2, start=0)


@pytest.mark.feature(165)
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_later_partitions_go_on_where_the_first_end(factor: int) -> None:
    brokers = {7: "", 8: "", 9: "", 12: ""}
    whole = assign_replicas(brokers, 10, factor, start=2)
    first = assign_replicas(brokers, 4, factor, start=2)
    start = start_of(brokers, first)
    assert first + assign_replicas(brokers, 6, factor, start=start, existing=first) == whole


def test_later_partitions_go_to_a_broker_that_came_later_first() -> None:
    existing = [(0,), (1,), (0,), (1,)]
    placed = assign_replicas(racks("", "", ""), 3, 1, start=0, existing=existing)
    assert placed[:2] == [(2,), (2,)]
    assert start_of({5: ""}, existing) == 0  # the broker that led the first partition is away


@pytest.mark.parametrize(("factor", "brokers"), [(0, 3), (4, 3), (1, 0), (-2, 3)])
def test_a_factor_that_the_live_brokers_can_not_hold_is_refused(factor: int, brokers: int) -> None:
    with pytest.raises(OttlaError, match=f"live brokers is {brokers}") as refused:
        assign_replicas(racks(*[""] * brokers), 1, factor, start=0)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_explicit_replicas_are_taken_in_the_order_of_the_partitions() -> None:
    assert check_assignments([(1, (2, 3)), (0, (1, 0))], LIVE) == [(1, 0), (2, 3)]


@pytest.mark.parametrize(
    ("assignments", "why"),
    [
        ([(0, (0,)), (2, (1,))], "numbered from 0"),
        ([(0, (0,)), (0, (1,))], "numbered from 0"),
        ([(1, (0,))], "numbered from 0"),
        ([(0, ())], "at least one"),
        ([(0, (1, 1))], "each broker once"),
        ([(0, (0, 9))], "broker 9, which is not registered"),
        ([(0, (3,))], "no broker of partition 0 is live"),
        ([(0, (0, 1)), (1, (2,))], "the same number"),
    ],
)
def test_explicit_replicas_that_make_no_sense_are_refused(assignments: list[tuple[int, Replicas]], why: str) -> None:
    with pytest.raises(OttlaError, match=why) as refused:
        check_assignments(assignments, LIVE)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
