"""The table of a member's states has the transitions of reconciliation: no more, and no less."""

from __future__ import annotations

import itertools

import pytest
from consumer_groups import flat, partitions
from groups import id_of

from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer import reconciliation
from ottla_group_coordinator.machines.consumer.member import ConsumerMember, CurrentAssignment
from ottla_group_coordinator.machines.consumer.partitions import EpochOfPartition
from ottla_group_coordinator.machines.consumer.reconciliation import Goal, reconcile
from ottla_group_coordinator.machines.consumer.states import (
    NEXT,
    ConsumerGroupState,
    MemberEvent,
    MemberState,
    group_state,
)

T = id_of("t")


def epochs(*numbers: int) -> EpochOfPartition:
    return {T: dict.fromkeys(numbers, 3)} if numbers else {}


def test_reconciliation_takes_every_transition_of_the_table_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[MemberState, MemberEvent]] = set()

    class Watched(dict[tuple[MemberState, MemberEvent], MemberState]):
        def __getitem__(self, way: tuple[MemberState, MemberEvent]) -> MemberState:
            taken.add(way)
            return super().__getitem__(way)

    monkeypatch.setattr(reconciliation, "NEXT", Watched(NEXT))
    for state, owned_by_others, epoch, target, reported in itertools.product(
        MemberState, [set[int](), {2}], [3, 4], [(), (0,), (0, 2)], [None, (), (0,), (0, 1)]
    ):
        revoking = epochs(1) if state is MemberState.UNREVOKED else {}
        assigned = epochs(0) if revoking else epochs(0, 1)
        member = ConsumerMember("m", current=CurrentAssignment(3, 2, state, assigned, revoking))

        def owner(topic_id: TopicId, number: int, others: set[int] = owned_by_others) -> str | None:
            return "other" if number in others else "m" if number in (0, 1) else None

        goal = Goal(epoch, partitions(t=target), lambda t: True, owner)
        now = reconcile(member, goal, None if reported is None else partitions(t=reported))
        _check_step(member.current, now, goal, reported)
    assert taken == set(NEXT)


def _check_step(was: CurrentAssignment, now: CurrentAssignment, goal: Goal, reported: tuple[int, ...] | None) -> None:
    had, has = flat(was.assigned) | flat(was.revoking), flat(now.assigned) | flat(now.revoking)
    assert all(goal.owner(*partition) in (None, "m") for partition in has), "it never owns what another owns"
    given_up = had - has
    assert not given_up or reported is not None, "it owns everything until it has said otherwise"
    assert not {n for _, n in given_up} & set(reported or ())
    if now.epoch != was.epoch:
        assert now.previous_epoch == was.epoch
        assert not now.revoking
    assert (now.state is MemberState.UNREVOKED) == bool(now.revoking) or now == was
    if now.state is MemberState.STABLE and now != was:
        assert flat(now.assigned) == flat(goal.partitions) or now.epoch != goal.epoch


@pytest.mark.parametrize(
    ("members", "reconciled", "is_assigned", "expected"),
    [
        (0, 0, True, ConsumerGroupState.EMPTY),
        (0, 0, False, ConsumerGroupState.EMPTY),
        (2, 2, False, ConsumerGroupState.ASSIGNING),
        (2, 1, True, ConsumerGroupState.RECONCILING),
        (2, 2, True, ConsumerGroupState.STABLE),
    ],
)
def test_a_groups_state_follows_from_its_members_and_epochs(
    members: int, reconciled: int, is_assigned: bool, expected: ConsumerGroupState
) -> None:
    assert group_state(members, reconciled, is_assigned=is_assigned) is expected
