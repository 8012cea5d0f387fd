"""Every story comes to what stands in its file. Its rules are in its head."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.script import STORIES, rules_of
from tests.scenarios.storyteller import tell


def _marked(path: Path) -> object:
    return pytest.param(path.read_text(), id=path.stem, marks=pytest.mark.rule(*rules_of(path.read_text())))


@pytest.mark.parametrize("story", [_marked(path) for path in STORIES])
async def test_a_story_ends_as_it_is_written(story: str, tmp_path: Path) -> None:
    assert await tell(story, tmp_path) == story, "where that is right: python -m tests.scenarios --rewrite"
