"""A copy of the source in which mends can be taken out, and pytest run over it."""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from loadtest.before.packages import python_path
from tests.regressions.injector import ROOT, environment, faults
from tests.regressions.story import Story

_LIMIT_S: Final = 600.0
_PATIENCE_S: Final = 20.0
"""What a test waits for at most, where it waits in vain (tests/support/waiting.py): without the mend, and with it too,
so that no slow machine is taken for what the mend is against."""
_PATIENT: Final = os.environ | {"TESTS_WAIT_S": str(_PATIENCE_S)}
_FAILED: Final = re.compile(r"\b(\d+) failed")


class Verdict(enum.Enum):
    """What the tests of a story said of a tree."""

    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"
    """Not one ran to a failure of its own: nothing was collected, imported or set up, or they did not end."""


class Tree:
    """A copy of all files that git knows or would know. Not safe for two threads at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._notes = root.with_suffix(".notes")

    def _copy(self) -> None:
        if self.root.exists():
            return
        root = self.root
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.split(b"\0"):
            source = ROOT / os.fsdecode(name)
            if name and source.is_file():  # a file that is deleted and not yet committed is listed, too
                target = root / os.fsdecode(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def verdict_without_mend(self, story: Story, tests: Sequence[str]) -> tuple[Verdict, str]:
        """Of these tests with the story's mend taken out, and the end of what pytest printed."""
        if not story.edits:
            return self._verdict_injected(story, tests)
        self._copy()
        texts = story.without_mend(self.root)
        before = {path: path.read_text() for path in texts}
        try:
            for path, text in texts.items():
                path.write_text(text)
            environment = {
                "PYTHONPATH": os.pathsep.join([python_path(self.root), str(self.root)]),
                "PYTHONDONTWRITEBYTECODE": "1",  # a file that is put back within a second has its old size and date
            }
            return self._run(tests, self.root, _PATIENT | environment)
        finally:
            for path, text in before.items():
                path.write_text(text)

    def _verdict_injected(self, story: Story, tests: Sequence[str]) -> tuple[Verdict, str]:
        self._notes.write_text("")
        stop = len(story.injections) == 1  # each of several may be another test's to find
        verdict, end = self._run(tests, ROOT, _PATIENT | environment(story.name, self._notes), stop_early=stop)
        if wrong := faults(story.injections, self._notes):
            return Verdict.BROKEN, "\n".join([*wrong, end])
        return verdict, end

    def verdict(self, tests: Sequence[str]) -> tuple[Verdict, str]:
        """Of these tests with all mends in, and the end of what pytest printed."""
        return self._run(tests, ROOT, _PATIENT)

    def _run(
        self, tests: Sequence[str], root: Path, environment: Mapping[str, str], *, stop_early: bool = True
    ) -> tuple[Verdict, str]:
        """Run the tests, by default up to the first that fails."""
        early = ["-x"] if stop_early else []
        command = [sys.executable, "-m", "pytest", *early, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        try:
            ended = subprocess.run(
                command,
                cwd=root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return Verdict.BROKEN, f"not at its end after {_LIMIT_S:.0f} s"
        lines = ended.stdout.splitlines()
        end = "\n".join(lines[-12:]) + ended.stderr[-2000:]
        if ended.returncode == 0:
            return Verdict.PASSED, end
        return (Verdict.FAILED if lines and _FAILED.search(lines[-1]) else Verdict.BROKEN), end
