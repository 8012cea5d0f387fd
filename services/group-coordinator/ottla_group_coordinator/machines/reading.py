"""What a group reads, as far as its offsets are concerned. Groups of both protocols say it."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple


class Reading(NamedTuple):
    topics: Set[str] | None
    """None: that is not known, so a member may read any topic."""
    is_settled: bool
    """It tells whether the members are as they were when `topics` was found. They are not during a rebalance."""
    empty_since_ms: int
    """When the last member left, or -1 if there are members or that is not known."""
