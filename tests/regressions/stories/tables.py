"""Records as tables."""

from __future__ import annotations

from tests.regressions.injection import instead_of
from tests.regressions.story import Story


def _types_guessed(original, batches, columns=None):
    import pandas

    frame = original(batches, columns)
    for name in {"key", "value"} & set(frame.columns):
        frame[name] = pandas.Series(frame[name].tolist())
    return frame


STORIES = (
    Story(
        "integers-with-a-null-become-floats",
        "`to_pandas()` made floats of a column of integers with a null: beyond 2**53 they were other numbers",
        instead_of("ottla.consumer.columns:to_pandas", _types_guessed),
    ),
    Story(
        "snapshot-taken-back-by-a-slower-table",
        "Of two tables that shared a snapshot the slower one wrote an older state over what the other one had written",
        instead_of("ottla.table.snapshot:TableSnapshot._has_later", lambda original, self, head: False),
    ),
)
