"""The stories: all that they break is there, and a run of them finds each story that is not caught."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.regressions.__main__ import misfits, run
from tests.regressions.injection import skipped
from tests.regressions.injector import ROOT
from tests.regressions.stories import ALL
from tests.regressions.story import Edit, Story, by_name
from tests.regressions.tree import Verdict
from tools.house import PACKAGES as FOLDERS

PACKAGES = {*FOLDERS, "ottla_proto"}


@pytest.mark.parametrize("story", ALL.values(), ids=ALL)
def test_everything_that_a_story_breaks_is_there_and_is_called_as_the_story_expects(story: Story) -> None:
    assert story.injections or story.edits
    for injection in story.injections:
        injection.check()
    assert all(text != path.read_text() for path, text in story.without_mend(ROOT).items())


def test_stories_load_nothing_of_the_product() -> None:
    code = (
        f"import sys, tests.regressions.stories; print([m for m in sys.modules if m.partition('.')[0] in {PACKAGES}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_edits_of_one_file_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one two")
    story = Story("s", "", Edit("a", "one", "1"), Edit("a", "two", "2"))
    assert story.without_mend(tmp_path) == {tmp_path / "a": "1 2"}


@pytest.mark.parametrize("text", ["", "here and here"])
def test_a_mend_that_is_not_there_once_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(LookupError, match="story s: a has"):
        Story("s", "", Edit("a", "here", "")).without_mend(tmp_path)


def test_a_file_that_has_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="story s"):
        Story("s", "", Edit("a", "here", "")).without_mend(tmp_path)


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


class ScriptedTree:
    """Instead of pytest."""

    def __init__(self, with_it: Verdict, without: Verdict) -> None:
        self._with_it, self._without = with_it, without

    def verdict(self, tests: Sequence[str]) -> tuple[Verdict, str]:
        return self._with_it, "the end"

    def verdict_without_mend(self, story: Story, tests: Sequence[str]) -> tuple[Verdict, str]:
        return self._without, "the end"


@pytest.mark.parametrize("with_it", Verdict)
@pytest.mark.parametrize("without", Verdict)
def test_only_a_story_that_passes_and_fails_without_its_mend_is_caught(with_it: Verdict, without: Verdict) -> None:
    stories = {"s": Story("s", "")}
    open_ = run(stories, {"s": ["t"]}, [ScriptedTree(with_it, without)])  # type: ignore[list-item]  # has its methods
    assert bool(open_) is not (with_it is Verdict.PASSED and without is Verdict.FAILED)
