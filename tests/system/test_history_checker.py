"""`make faults` in small: a leader is killed and nothing is wrong; a rule is broken and the checker finds out.

How long everything takes is not looked at here: that is for a machine that does nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.faults import network
from tests.faults.nemesis import LEAST_HITS
from waiting import LIMIT_S

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _there_is_a_network_to_cut() -> None:
    """What is missing is to be installed: a proof that skips itself proves nothing."""
    if (why := network.why_not()) is not None:
        pytest.fail(why, pytrace=False)


def faults(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The last line of the run."""
    command = [sys.executable, "-m", "tests.faults", "--directory", str(tmp_path), "--seed", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT, check=False)
    print(done.stdout, done.stderr)
    fields: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert Path(fields["history"]).is_dir()
    return fields


def test_nothing_acknowledged_is_lost_repeated_or_reordered_by_kill_9_of_leaders(tmp_path: Path) -> None:
    fields = faults(tmp_path, "--rows", "F1", "--minutes", "0.1")
    assert fields["kills"] >= LEAST_HITS
    assert fields["acked"] >= 5_000
    assert fields["replicas_equal"]
    for kind in ("lost", "duplicated", "reordered", "inconsistent", "nonmonotonic", "skipped", "corrupted"):
        assert fields[kind] == 0, kind


def test_a_broker_that_checks_no_sequences_is_caught(tmp_path: Path) -> None:
    fields = faults(tmp_path, "--rows", "no-sequence-check")
    assert (fields["mutants"], fields["mutants_caught"]) == (1, 1)


def test_programs_may_be_interrupted_anywhere_and_a_mutant_is_caught(tmp_path: Path) -> None:
    fields = faults(tmp_path, "--rows", "F29", "--minutes", "0.5")
    assert fields["interrupts"] >= 70
    assert fields["in_hand"] >= 8
    assert (fields["skipped"], fields["misplaced"]) == (0, 0)
    assert (fields["mutants"], fields["mutants_caught"]) == (5, 5)


@pytest.mark.rule(38, 62)
def test_a_compacted_topic_is_the_table_of_what_was_acknowledged_whatever_cleanings_are_killed(tmp_path: Path) -> None:
    fields = faults(tmp_path, "--rows", "F19", "--minutes", "0.1")
    assert sum(fields["cleaner_kills_per_phase"].values()) == 3
    assert fields["map_equal"]
    assert fields["keys"] > 500
    assert min(fields["in_transactions"], fields["aborted_records"]) >= 30
    for kind in ("lost_committed", "aborted", "unmarked", "tombstones_early", "misplaced"):
        assert fields[kind] == 0, kind
    for kind in ("skipped", "forgotten", "unfenced", "unreadable"):
        assert fields[kind] == 0, kind


def test_nothing_is_lost_at_the_seams_by_kills_and_power_cuts(tmp_path: Path) -> None:
    fields = faults(tmp_path, "--rows", "F31", "--minutes", "0.3")
    assert fields["kills"] >= 2
    assert fields["cleanings"] >= 3
    assert fields["acked"] > 300
    for kind in ("lost", "misplaced", "aborted", "diverged", "lso_stuck", "unsendable", "grown", "damaged"):
        assert fields[kind] == 0, kind


def test_a_row_that_does_not_exist_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults", "--rows", "F1,F99"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert "there is no row F99" in done.stderr
