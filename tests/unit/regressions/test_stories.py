"""The stories: all that they break is there, and a run of them finds each story that is not caught."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.regressions.__main__ import misfits, run
from tests.regressions.injection import skipped
from tests.regressions.injector import ROOT
from tests.regressions.judge import Judge, Verdict
from tests.regressions.stories import ALL
from tests.regressions.story import Story, by_name
from tools.house import PACKAGES as FOLDERS

PACKAGES = {*FOLDERS, "ottla_proto"}


@pytest.mark.parametrize("story", ALL.values(), ids=ALL)
def test_everything_that_a_story_breaks_is_there_and_is_called_as_the_story_expects(story: Story) -> None:
    assert story.injections
    for injection in story.injections:
        injection.check()


def test_stories_load_nothing_of_the_product() -> None:
    code = (
        f"import sys, tests.regressions.stories; print([m for m in sys.modules if m.partition('.')[0] in {PACKAGES}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_two_stories_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two stories are called s"):
        by_name([Story("s", ""), Story("s", "")])


def test_stories_and_markers_that_do_not_fit_are_told() -> None:
    broken = skipped("m:f")
    stories = by_name([Story("told", "", broken), Story("untold", "", broken), Story("kept", "")])
    assert misfits(stories, {"told": ["t"], "kept": ["t"], "unknown": ["t::u"]}) == [
        "untold: no test is marked with it",
        "kept: has nothing that takes its mend out",
        "unknown: t::u is marked with it, and there is no such story",
    ]


class ScriptedJudge:
    """Instead of pytest."""

    def __init__(self, not_passed: set[str], without: Verdict) -> None:
        self._not_passed, self._without = not_passed, without

    def not_passed(self, tests: Sequence[str], workers: int) -> tuple[set[str], str]:
        return self._not_passed, "the end"

    def without_mend(self, story: Story, tests: Sequence[str]) -> tuple[Verdict, str]:
        return self._without, "the end"


@pytest.mark.parametrize("not_passed", [set(), {"t"}, {"u"}])
@pytest.mark.parametrize("without", Verdict)
def test_only_a_story_that_passes_and_fails_without_its_mend_is_caught(not_passed: set[str], without: Verdict) -> None:
    judge: Any = ScriptedJudge(not_passed, without)
    open_ = run({"s": Story("s", "")}, {"s": ["t"]}, judge, 1)
    assert bool(open_) is not ("t" not in not_passed and without is Verdict.FAILED)


def test_tests_that_run_together_are_told_apart(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n): assert n == 1\ndef test_it_too(): pass\n"
    )
    tests = [f"{os.path.relpath(test, ROOT)}::{name}" for name in ("test_it", "test_it_too")]
    assert Judge(tmp_path).not_passed(tests, 1)[0] == {tests[0]}
    assert Judge(tmp_path).not_passed([tests[1]], 1)[0] == set()
    assert Judge(tmp_path).not_passed([*tests, "tests/absent.py::test_it"], 1)[0] == {
        *tests,
        "tests/absent.py::test_it",
    }


def test_what_was_not_broken_proves_nothing(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it():\n    raise AssertionError\n")
    story = next(iter(ALL.values()))
    verdict, end = Judge(tmp_path).without_mend(story, [str(test)])
    assert verdict is Verdict.BROKEN
    assert "no process has loaded its module" in end


def test_an_error_of_pytest_itself_is_not_the_verdict(tmp_path: Path) -> None:
    """The first run of these tests ends within a hook, as at the time limit of a test that hangs."""
    once = tmp_path / "once"
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\n"
        "def pytest_runtest_makereport():\n"
        f"    if not Path({str(once)!r}).exists():\n"
        f"        Path({str(once)!r}).touch()\n"
        "        raise RuntimeError\n"
    )
    test = tmp_path / "test_it.py"
    test.write_text("def test_it():\n    raise AssertionError\n")
    assert Judge(tmp_path).with_mends([str(test)])[0] is Verdict.FAILED
