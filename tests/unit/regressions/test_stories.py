"""The stories: all that they break is there, and a run of them finds each story that is not caught."""

from __future__ import annotations

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

    def __init__(self, with_it: Verdict, without: Verdict) -> None:
        self._with_it, self._without = with_it, without

    def with_mends(self, tests: Sequence[str]) -> tuple[Verdict, str]:
        return self._with_it, "the end"

    def without_mend(self, story: Story, tests: Sequence[str]) -> tuple[Verdict, str]:
        return self._without, "the end"


@pytest.mark.parametrize("with_it", Verdict)
@pytest.mark.parametrize("without", Verdict)
def test_only_a_story_that_passes_and_fails_without_its_mend_is_caught(with_it: Verdict, without: Verdict) -> None:
    judge: Any = ScriptedJudge(with_it, without)
    open_ = run({"s": Story("s", "")}, {"s": ["t"]}, judge, 1)
    assert bool(open_) is not (with_it is Verdict.PASSED and without is Verdict.FAILED)


def test_what_was_not_broken_proves_nothing(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it():\n    raise AssertionError\n")
    story = next(iter(ALL.values()))
    verdict, end = Judge(tmp_path).without_mend(story, [str(test)])
    assert verdict is Verdict.BROKEN
    assert "no process has loaded its module" in end
