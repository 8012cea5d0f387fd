"""docs/regressions.md: one line for each story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.regressions.injector import ROOT
from tests.regressions.story import Story

PAGE: Final = ROOT / "docs/regressions.md"
_HEAD: Final = """# What went wrong once

One line for each story: what happened, and the tests that would fail if it happened again. `tests/regressions/stories/`
names the functions that each story breaks again; `make regressions` puts the broken ones in their places in turn and
fails unless a test of the story does. `make coverage-table` writes this page, from the stories and the markers
`@pytest.mark.story(name)`.

| story | what happened | tests |
|---|---|---|
"""


def page(stories: Mapping[str, Story], tests: Mapping[str, Sequence[str]]) -> str:
    rows = (
        f"| {name} | {story.happened} | {'<br>'.join(f'`{test}`' for test in sorted(tests.get(name, ())))} |\n"
        for name, story in stories.items()
    )
    return _HEAD + "".join(rows)
