"""Every story comes to what stands in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.script import STORIES, rules_of
from tests.scenarios.storyteller import tell


def _marked(path: Path) -> object:
    rules = rules_of(path.read_text())
    return pytest.param(path, id=path.stem, marks=[pytest.mark.rule(*rules)] if rules else [])


@pytest.mark.parametrize("path", map(_marked, STORIES))
async def test_a_story_ends_as_it_is_written(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    assert await tell(text, tmp_path) == text, "if that is right: python -m tests.scenarios --rewrite"
