"""docs/regressions.md: one line for each story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.regressions.story import Story
from tests.regressions.tree import ROOT

PAGE: Final = ROOT / "docs/regressions.md"
_HEAD: Final = """# What went wrong once

One line for each story: what happened, and the tests that would fail if it happened again. The mend of each is an edit
in `tests/regressions/stories/`; `make regressions` takes each mend out in turn and fails unless a test of its story
does. `make coverage-table` writes this page, from the stories and the markers `@pytest.mark.story(name)`.

| story | what happened | tests |
|---|---|---|
"""


def page(stories: Mapping[str, Story], tests: Mapping[str, Sequence[str]]) -> str:
    rows = (
        f"| {name} | {story.happened} | {'<br>'.join(f'`{test}`' for test in sorted(tests.get(name, ())))} |\n"
        for name, story in stories.items()
    )
    return _HEAD + "".join(rows)
