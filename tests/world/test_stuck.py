"""A seed that makes no progress names the tasks that wait, and prints all steps that are known."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import pytest
from tests.world import __main__ as command
from tests.world import forked, ledger
from tests.world.cluster import Cluster
from tests.world.forked import in_a_fork
from tests.world.metadata import Metadata
from tests.world.seed import Outcome, Plan, run

_STEPS = 200


def _run_in_a_fork(plan: Plan) -> Outcome:
    """Run a seed in a fork, which has what the test has patched."""
    return Outcome(**in_a_fork(lambda: asdict(run(plan))))


async def _for_ever(*_: Any) -> None:
    await asyncio.Event().wait()


def test_a_deadlock_names_every_task_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "_main", _for_ever)
    monkeypatch.setattr(ledger, "create_topic", _for_ever)
    outcome = _run_in_a_fork(Plan(1, storm_s=1.0, profile="ledger"))
    assert outcome.violations == ["nothing will ever happen again"]
    waiting = {line.partition(":")[0] for line in outcome.waiting}
    assert {"etcd", "controller-0", "broker-0", "broker-1", "group-0", "txn-0", "client"} <= waiting
    assert all("Event.wait" in line for line in outcome.waiting if not line.startswith("etcd"))


def test_a_cluster_that_does_not_heal_names_every_task_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metadata, "is_whole", lambda _: False)
    outcome = _run_in_a_fork(Plan(1, storm_s=6.0, profile="table"))
    assert not outcome.healed
    assert any(line.startswith("broker-0: ") and "Maintenance._run" in line for line in outcome.waiting)
    assert outcome.last_steps


def test_a_task_that_spins_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spin(*_: Any) -> None:
        while True:
            pass

    monkeypatch.setattr(forked, "_LIMIT_S", 1.0)
    monkeypatch.setattr(ledger, "create_topic", spin)
    outcome = _run_in_a_fork(Plan(1, profile="ledger"))
    [violation] = outcome.violations
    assert violation.startswith("it has taken 1 s of the processor, and is at ")
    assert __file__ in violation
    assert any(line.startswith("controller-0: ") for line in outcome.waiting)
    assert outcome.last_steps


@pytest.mark.parametrize(("waiting", "told"), [([], command._FEW_STEPS), (["broker-0: main"], _STEPS)])
def test_all_steps_of_a_seed_without_progress_are_printed(waiting: list[str], told: int) -> None:
    outcome = Outcome(1, last_steps=[f"step {n}" for n in range(_STEPS)], waiting=waiting, violations=["it is red"])
    lines = command._end(outcome)
    assert [line for line in lines if line.startswith("step")] == outcome.last_steps[-told:]
    assert lines[told:] == [*waiting, "it is red", "the replicas are not in sync again"]
