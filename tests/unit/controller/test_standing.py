"""The table of elections: every cell occurs, no other combination does, and what each cell says holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ottla_controller.machines.availability import Availability
from ottla_controller.machines.election import Rules, settled
from ottla_controller.machines.standing import OUTCOMES, InSync, Leads, Pool, Standing
from ottla_core.cluster.image import Partition
from ottla_core.model import NO_LEADER

REPLICAS = (1, 2)
BROKER = ("willing", "shutting down", "within grace", "dead", "dead, and its tail may be lost")
MEMBER = ("in sync", "eligible", "was eligible", "out")


def worlds() -> Iterator[Standing]:
    """Every state of two brokers and of their membership in a partition, with every leader that an ISR allows."""
    for brokers, members, full, unclean in product(
        product(BROKER, repeat=2), product(MEMBER, repeat=2), (None, *REPLICAS), (False, True)
    ):
        existing = availability(dict(zip(REPLICAS, brokers, strict=True)), full)
        isr, elr, last_known = (
            tuple(b for b, member in zip(REPLICAS, members, strict=True) if member == kind) for kind in MEMBER[:3]
        )
        for leader in (*isr, NO_LEADER):
            partition = Partition(REPLICAS, leader, 3, isr, 5, elr=elr, last_known_elr=last_known)
            yield Standing(partition, existing, unclean)


def availability(brokers: dict[int, str], full: int | None) -> Availability:
    def those(*kinds: str) -> frozenset[int]:
        return frozenset(b for b, kind in brokers.items() if kind in kinds)

    return Availability(
        willing=those("willing"),
        live=those("willing", "shutting down"),
        within_grace=those("within grace"),
        fenced=those("within grace", "dead", "dead, and its tail may be lost"),
        read_only=frozenset() if full is None else frozenset([full]),
        tail_lost=those("dead, and its tail may be lost"),
        directories={},
        restored=0,
    )


def test_every_cell_occurs_and_no_other_combination_does() -> None:
    assert {(standing.pool, standing.leader) for standing in worlds()} == set(OUTCOMES)


def test_what_each_cell_says_holds() -> None:
    count = 0
    for standing in worlds():
        before, existing, outcome = standing.partition, standing.existing, standing.outcome
        after = settled(before, existing, Rules(2, standing.unclean))
        where = (standing, outcome, after)
        assert after.leader == NO_LEADER or after.leader in after.isr or standing.pool is Pool.AWAY, where
        assert not standing.lost & {after.leader, *after.isr, *after.elr} or outcome.isr is InSync.RECOVERING, where
        if outcome.leader is Leads.SAME:
            assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch), where
        elif outcome.leader is Leads.FIRST:
            assert (after.leader, after.leader_epoch) == (standing.first, before.leader_epoch + 1), where
            assert after.leader in existing.live, where
        else:
            assert after.leader == NO_LEADER, where
        complete = {*before.isr, *before.elr}
        if outcome.isr is InSync.RECOVERING:
            assert standing.unclean, where
        else:
            assert {*after.isr, *after.elr} <= complete, f"a replica that may lack acknowledged records: {where}"
        count += 1
    assert count > 3_000


def test_a_partition_that_is_settled_stays_as_it_is() -> None:
    for standing in worlds():
        rules = Rules(2, standing.unclean)
        after = settled(standing.partition, standing.existing, rules)
        assert settled(after, standing.existing, rules) is after, standing


def test_members_within_grace_stay_in_sync_when_their_leader_is_distrusted() -> None:
    """It is soon known whether they come back; an empty ISR would let any eligible replica lead alone."""
    existing = availability({1: "dead, and its tail may be lost", 2: "within grace"}, None)
    partition = Partition(REPLICAS, 1, 3, (1, 2), 5)
    after = settled(partition, existing, Rules(1, unclean=False))
    assert (after.leader, after.isr) == (NO_LEADER, (2,))
