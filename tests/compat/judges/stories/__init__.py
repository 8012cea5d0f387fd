"""The stories of consumers, by what they are about."""

from __future__ import annotations

from typing import Final

from tests.compat.judges.stories import commits, positions, rebalances

STORIES: Final = {
    "positions": positions.STORIES,
    "commits": commits.STORIES,
    "rebalances": rebalances.STORIES,
}
