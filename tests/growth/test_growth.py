"""The short form of `make growth`: three batches of units on a real cluster, with one leak that has to be found.

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
LEAST_STRUCTURES = 30
ROLES = {
    "answer",
    "broker",
    "broker, Kafka listener",
    "broker, follower",
    "broker, idle replica",
    "broker, leader",
    "client",
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
PLANTED = Structure("broker, follower", "Replica.fetched", "items")


def grown(verdict: Verdict) -> set[Structure]:
    return {each.structure for each in verdict.grown}


def in_doubt(measurements: Sequence[Measurement]) -> bool:
    return grown(judge(measurements, BOUNDS)) != {PLANTED}


@pytest.fixture
def no_log_records() -> Iterator[None]:
    """pytest keeps each record with its arguments: errors, whose tracebacks hold closed clients."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_log_records")
@pytest.mark.long_turns  # a census looks at everything at once
def test_nothing_grows_with_what_has_ended_but_what_was_planted() -> None:
    with leaks.planted([leaks.ALONE]):
        outcome = run(SHORT, UNITS, seed=7, with_turns=False, in_doubt=in_doubt)
    verdict = judge(outcome.measurements, BOUNDS)
    assert grown(verdict) == {PLANTED}, "\n".join(described(verdict))
    assert verdict.over == (), "\n".join(described(verdict))
    by_role = {role: sum(s.role == role for s in outcome.measurements[0].sizes) for role in verdict.roles}
    assert set(by_role) == ROLES
    assert verdict.structures >= LEAST_STRUCTURES
