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

A story is written in three steps: mark the test, add the story to a module of `tests/regressions/stories/`, and run
`python -m tests.regressions --only the-name`. It names what it breaks as `module:function` or `module:Class.method`:

    Story(
        "count-that-lies-takes-offsets",
        "A batch of 69 bytes that claimed 2**26 records took offsets for all of them",
        skipped("ottla_broker.storage.validator:check_records"),
    )

`skipped(target, answer)` skips each call; `instead_of(target, broken)` calls `broken(original, *arguments)`;
`constant(target, value)` and `altered(target, change)` set a constant or an imported name. The broken one is in place
in every process that the test starts. A run proves nothing, and says so, where a target is not loaded or not called, or
where the broken function fails by itself because the product around it has changed.

| story | what happened | tests |
|---|---|---|
"""


def page(stories: Mapping[str, Story], tests: Mapping[str, Sequence[str]]) -> str:
    rows = (
        f"| {name} | {story.happened} | {'<br>'.join(f'`{test}`' for test in sorted(tests.get(name, ())))} |\n"
        for name, story in stories.items()
    )
    return _HEAD + "".join(rows)
