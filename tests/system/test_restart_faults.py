"""`make faults ROWS=F35` in small: coordinators and brokers are restarted beside an App; a rule is broken and found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.faults import network

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(400)
def test_restarts_lose_double_and_hide_nothing_and_a_mutant_is_caught(tmp_path: Path) -> None:
    """The query is left out: tests/spark has restarts of its driver."""
    if (why := network.why_not()) is not None:
        pytest.fail(why, pytrace=False)
    of_row = faults(tmp_path / "row", "--rows", "F35", "--minutes", "0.2")
    assert of_row["restarts"] >= 5
    assert of_row["rows"] >= 500
    assert of_row["listings"] >= 100
    for kind in ("lost", "doubled", "torn", "short_listings", "false_failures", "waits"):
        assert of_row[kind] == 0, kind
    of_mutant = faults(tmp_path / "mutant", "--rows", "shards-named-while-they-load")
    assert (of_mutant["mutants"], of_mutant["mutants_caught"]) == (1, 1)


def faults(directory: Path, *arguments: str) -> dict[str, Any]:
    """Return the last line of a run that has ended well."""
    command = [sys.executable, "-m", "tests.faults", "--directory", str(directory), "--seed", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    fields: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return fields
