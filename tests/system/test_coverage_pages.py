"""The pages that are made from the markers of tests are what `make coverage-table` makes of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from waiting import LIMIT_S

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "features and rules": (str(ROOT / "tools/coverage_table.py"),),
    "stories": ("-m", "tests.regressions"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_they_are_current(command: Sequence[str]) -> None:
    check = [sys.executable, *command, "--check"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
