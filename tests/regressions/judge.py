"""Runs the tests of a story, with all mends in place and without its own."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.regressions.injector import ROOT, environment, faults
from tests.regressions.story import Story

_LIMIT_S: Final = 600.0
_PATIENCE_S: Final = 20.0
"""How long a test waits at most where it waits in vain (tests/support/waiting.py). It holds with the mend, too, so that
a slow machine is not taken for the defect."""
_FAILED: Final = re.compile(r"\b(\d+) failed")


class Verdict(enum.Enum):
    """What the tests of a story said of the product."""

    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"
    """Proves nothing: no test failed by itself, they did not end, or what was to be broken was not."""


class Judge:
    """Judges several stories at a time. What their processes note lies in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def with_mends(self, tests: Sequence[str]) -> tuple[Verdict, str]:
        """Return the verdict of these tests, and the end of what pytest printed."""
        return _run(tests, {}, stop_early=True)

    def without_mend(self, story: Story, tests: Sequence[str]) -> tuple[Verdict, str]:
        """Return the verdict of these tests with the story's broken functions in place."""
        notes = self._directory / f"{story.name}.notes"
        notes.write_text("")
        stop_early = len(story.injections) == 1  # each of several may be another test's to find
        verdict, end = _run(tests, environment(story.name, notes), stop_early=stop_early)
        if wrong := faults(story.injections, notes):
            return Verdict.BROKEN, "\n".join([*wrong, end])
        return verdict, end


def _run(tests: Sequence[str], more: dict[str, str], *, stop_early: bool) -> tuple[Verdict, str]:
    """Run the tests with `more` in their environment, up to the first failure or to the end."""
    early = ["-x"] if stop_early else []
    command = [sys.executable, "-m", "pytest", *early, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    variables = os.environ | {"TESTS_WAIT_S": str(_PATIENCE_S)} | more
    try:
        ended = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        return Verdict.BROKEN, f"not at its end after {_LIMIT_S:.0f} s"
    lines = ended.stdout.splitlines()
    end = "\n".join(lines[-12:]) + ended.stderr[-2000:]
    if ended.returncode == 0:
        return Verdict.PASSED, end
    return (Verdict.FAILED if lines and _FAILED.search(lines[-1]) else Verdict.BROKEN), end
