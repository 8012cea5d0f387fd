"""`make faults ROWS=F11` in small: services are killed in steps of transactions; two rules are broken and found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.faults import network

ROOT = Path(__file__).parents[2]
MUTANTS = "no-epoch-bump,pending-offsets-applied-at-load"


@pytest.mark.timeout(600)
@pytest.mark.rule(33, 35, 36, 38, 39, 50)
def test_transactions_are_whole_or_absent_whatever_is_killed_and_mutants_are_caught(tmp_path: Path) -> None:
    """Both at once: most of the time they wait. The JVM is left out."""
    if (why := network.why_not()) is not None:
        pytest.fail(why, pytrace=False)
    commands = [["--rows", "F11", "--minutes", "0.1"], ["--rows", MUTANTS]]
    with _faults(tmp_path / "row", *commands[0]) as killed, _faults(tmp_path / "mutants", *commands[1]) as broken:
        of_row, of_mutants = _summary(killed), _summary(broken)
    assert sum(of_row["failpoints_hit"].values()) >= 4
    assert min(of_row["by_client"][kind] for kind in ("sdk", "librdkafka")) >= 20
    for kind in ("torn", "aborted_reads", "duplicates", "hanging", "lost", "offsets", "zombies", "went_back"):
        assert of_row[kind] == 0, kind
    assert killed.returncode == 0
    assert (of_mutants["mutants"], of_mutants["mutants_caught"]) == (2, 2)


def _faults(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults", "--directory", str(directory), "--seed", "1", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _summary(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate(timeout=580)
    print(output)
    fields: dict[str, Any] = json.loads(output.splitlines()[-1])
    return fields
