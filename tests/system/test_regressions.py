"""`make regressions` in small: one story, in a copy of the whole source, run by pytest as it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 280
STORY = "config-said-to-have-no-effect"

pytestmark = pytest.mark.timeout(LIMIT_S + 10)


def test_a_story_is_caught_with_its_mend_taken_out() -> None:
    command = [sys.executable, "-m", "tests.regressions", "--only", STORY, "--workers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["planted"], told["planted_caught"], told["open"]) == (1, 1, [])
