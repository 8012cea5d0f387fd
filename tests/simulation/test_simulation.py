"""The coordinator's own classes under every fault, for a million steps; and proof that the checks check something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 300
NAMED = {  # by issue 6
    "no high-watermark wait",
    "no offset compare",
    "fence forgotten",
    "indefinite append reverted",
    "no read check",
    "epoch kept at restart",
    # A process that is starved, and a log that is late.
    "gap unnoticed",
    "load begun again",
    "state dropped when late",
    "late read answered",
    "late is failed",
    # By issue 18.
    "verification unguarded",
}

pytestmark = pytest.mark.timeout(LIMIT_S)


def simulate(*arguments: str, hash_seed: str = "random") -> tuple[int, list[str]]:
    """Exit code and lines of one run."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def told(lines: list[str]) -> dict[str, Any]:
    """The last line."""
    object_: dict[str, Any] = json.loads(lines[-1])
    return object_


@pytest.mark.rule(52, 53, 54)
def test_a_million_steps_break_nothing() -> None:
    code, lines = simulate("--steps", "1000000")
    assert code == 0, "\n".join(lines)
    run = told(lines)
    assert run["steps"] >= 1_000_000
    assert run["broken"] == 0
    # It is a storm in which something is done.
    assert min(run["answers"][kind] for kind in ("write", "read", "memory", "by proof", "watch", "refused")) > 1000
    assert run["answers"]["failed"] > 100
    # With all rules kept nobody under his own fence is out of step, and nobody gives up a shard whose log is late.
    assert {why: count > 100 for why, count in run["left"].items()} == {
        "unassigned": True,
        "another owner has a higher fence": True,
        "the log does not take a batch: it is too large for now (MESSAGE_TOO_LARGE)": True,
    }


def test_every_rule_that_is_broken_on_purpose_is_found() -> None:
    code, lines = simulate("--mutants", "--seeds", "500")
    run = told(lines)
    assert code == 0, run
    assert run["mutants_caught"] == run["mutants"] >= len(NAMED)
    assert run["first_seeds"].keys() >= NAMED


def test_a_mutant_that_is_not_found_fails_the_run() -> None:
    code, lines = simulate("--mutants", "--seeds", "1")
    run = told(lines)
    assert (code, run["mutants_caught"] < run["mutants"]) == (1, True)


def test_a_seed_is_one_story_wherever_it_is_told() -> None:
    traces = {told(simulate("--seed", "11", hash_seed=seed)[1])["trace"] for seed in ("0", "1", "4242")}
    assert len(traces) == 1
    assert told(simulate("--seed", "12")[1])["trace"] not in traces


def test_what_is_found_is_printed_and_found_again() -> None:
    code, lines = simulate("--seeds", "2", "--mutant", "no offset compare")
    assert code == 1
    first, again, *_ = lines
    assert first.startswith("seed 0: ")
    assert again.endswith('python -m tests.simulation --seed 0 --tell --mutant "no offset compare"')
    code, lines = simulate("--seed", "0", "--tell", "--mutant", "no offset compare")
    assert (code, told(lines)["broken"]) == (1, first.removeprefix("seed 0: "))
    assert len(lines) > 10
