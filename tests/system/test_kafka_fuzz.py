"""A short run of `make fuzz`: a few thousand cases find nothing, and bugs that are planted are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.run import SERVED

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]
LIMIT_S = 580
CASES = 3_000
PLANTED = ("answer-of-another", "follower-served")


def fuzz(*arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    return done, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.rule(71)
def test_only_planted_bugs_are_found(tmp_path: Path) -> None:
    done, last = fuzz(
        "--cases", str(CASES), "--seed", "20261120", "--planted", ",".join(PLANTED), "--directory", str(tmp_path)
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert last["cases"] >= CASES
    assert last["keys"] == len(SERVED)
    assert last["versions"] == sum(api.max_version + 1 - api.advertised_min for api in SERVED.values())
    assert (last["crashes"], last["hangs"], last["faults"]) == (0, 0, 0)
    assert (last["planted"], last["planted_found"]) == (len(PLANTED), len(PLANTED))
    assert last["canary_round_trips"] > 0


def test_a_failing_case_is_kept_and_fails_again(tmp_path: Path) -> None:
    """The verdict on a replay is that of the case: here one that a broker must end its connection for, and does."""
    case = {
        "kind": "unknown", "key": 999, "version": 0, "data": "0000000a03e700000000000100ff", "expect": "END",
        "correlation_id": 1, "answer_version": 0, "may_be_silent": False, "may_park": False, "must_refuse": False,
        "resets": False,
    }  # fmt: skip
    served = {**case, "kind": "served", "key": 18, "data": "0000000a00120000000000010000"}
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case) + "\n" + json.dumps(served) + "\n")
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--replay", str(file), "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1, done.stdout + done.stderr
    first, second = done.stdout.splitlines()
    assert first == "key 999 version 0, unknown: closed"
    assert second.startswith("key 18 version 0, served: fault answered")
