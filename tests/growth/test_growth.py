"""The short form of `make growth`: three batches of units on real clusters, with leaks that have to be found.

`make growth` does more of it, restarts everything in between, and plants all leaks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest
from tests.growth import leaks
from tests.growth.bounds import BOUNDS
from tests.growth.measurement import Measurement
from tests.growth.run import SHORT, run
from tests.growth.verdict import Verdict, described, judge
from tests.growth.walk import Structure

UNITS = 4
DELIVERIES = {"same": "same_offsets"}
"""One flow, because three take twice the time: the flow that writes at offsets of its own."""
LEAST_STRUCTURES = 30
ROLES = {
    "answer",
    "broker",
    "broker, Kafka listener",
    "broker, follower",
    "broker, idle replica",
    "broker, leader",
    "client",
    "flow's own topics",
    "mirror",
    "mirror, leading",
    "mirror, standby",
    "target's broker",
    "target's broker, Kafka listener",
    "target's broker, leader",
    "target's controller, elected",
    "target's group-coordinator, owner",
    "target's group-coordinator, shard",
    "target's txn-coordinator, owner",
    "target's txn-coordinator, shard",
    "controller, elected",
    "controller, standby",
    "group-coordinator, non-owner",
    "group-coordinator, owner",
    "group-coordinator, shard",
    "module",
    "outside",
    "task",
    "txn-coordinator, non-owner",
    "txn-coordinator, owner",
    "txn-coordinator, shard",
}
PLANTED_IN_BROKER = Structure("broker, follower", "Following.fetched", "items")
PLANTED_IN_MIRROR = {Structure(f"mirror, {role}", "FlowState.seen", "items") for role in ("leading", "standby")}


def grown(verdict: Verdict) -> set[Structure]:
    return {each.structure for each in verdict.grown}


def is_what_was_planted(found: set[Structure]) -> bool:
    """Return whether exactly the planted growth was found. For the mirror, one role is enough."""
    return (
        PLANTED_IN_BROKER in found
        and bool(found & PLANTED_IN_MIRROR)
        and found
        <= {
            PLANTED_IN_BROKER,
            *PLANTED_IN_MIRROR,
        }
    )


def in_doubt(measurements: Sequence[Measurement]) -> bool:
    return not is_what_was_planted(grown(judge(measurements, BOUNDS)))


@pytest.fixture
def no_log_records() -> Iterator[None]:
    """pytest keeps each record with its arguments: errors, whose tracebacks hold closed clients."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_log_records")
@pytest.mark.long_turns  # a census looks at everything at once
@pytest.mark.timeout(900)  # where something seems to grow that should not, there are up to twice as many batches
def test_nothing_grows_with_what_has_ended_but_what_was_planted() -> None:
    with leaks.planted([leaks.ALONE, leaks.ALONE_IN_MIRROR]):
        outcome = run(SHORT, UNITS, seed=7, with_turns=False, deliveries=DELIVERIES, in_doubt=in_doubt)
    verdict = judge(outcome.measurements, BOUNDS)
    assert is_what_was_planted(grown(verdict)), "\n".join(described(verdict))
    assert verdict.over == (), "\n".join(described(verdict))
    by_role = {role: sum(s.role == role for s in outcome.measurements[0].sizes) for role in verdict.roles}
    assert set(by_role) == ROLES
    assert verdict.structures >= LEAST_STRUCTURES
