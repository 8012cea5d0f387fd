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

import pytest
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

    def not_passed(self, tests: Sequence[str], workers: int) -> tuple[set[str], str]:
        """Run all these tests in one pytest, which starts once, with all mends. Return those that did not pass, and the
        end of what pytest printed."""
        spread = ["-n", str(workers), "--dist", "loadfile"]
        ended = _pytest(tests, {}, [*spread, "-r", "fE"], limit_s=_LIMIT_S * 10)
        if ended is None or ended.returncode not in (0, 1):
            return set(tests), _end_of(ended)
        named = {line.split(" ", 1)[1] for line in ended.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))}
        failed = {test for test in tests if any(re.match(rf"{re.escape(test)}(\[| |$)", name) for name in named)}
        # A failure that belongs to none of the tests, in a file's setup for one, leaves nothing proved.
        return (failed if failed or not ended.returncode else set(tests)), _end_of(ended)

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
    options = [*(["-x"] if stop_early else []), "-p", "no:xdist"]
    ended = _pytest(tests, more, options, limit_s=_LIMIT_S)
    # The time limit of a test that hangs may end inside a hook, which pytest reports as an error of its own.
    if ended is not None and ended.returncode == pytest.ExitCode.INTERNAL_ERROR:
        ended = _pytest(tests, more, options, limit_s=_LIMIT_S)
    if ended is None:
        return Verdict.BROKEN, _end_of(ended)
    if ended.returncode == 0:
        return Verdict.PASSED, _end_of(ended)
    lines = ended.stdout.splitlines()
    return (Verdict.FAILED if lines and _FAILED.search(lines[-1]) else Verdict.BROKEN), _end_of(ended)


def _pytest(
    tests: Sequence[str], more: dict[str, str], options: Sequence[str], *, limit_s: float
) -> subprocess.CompletedProcess[str] | None:
    """Return how pytest ended; None if it did not within `limit_s`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
    variables = os.environ | {"TESTS_WAIT_S": str(_PATIENCE_S)} | more
    try:
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None


def _end_of(ended: subprocess.CompletedProcess[str] | None) -> str:
    """Return the last lines that pytest printed."""
    if ended is None:
        return "pytest did not end in time"
    return "\n".join(ended.stdout.splitlines()[-12:]) + ended.stderr[-2000:]
