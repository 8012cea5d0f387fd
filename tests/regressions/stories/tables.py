"""Records as tables."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "integers-with-a-null-become-floats",
        "`to_pandas()` made floats of integers where one of the column was null: beyond 2**53 they were other numbers",
        Edit("sdk/ottla/consumer/columns.py", "if any(value is None for value in collected[name]):", "if False:"),
    ),
)
