"""What a group of either protocol reads. Offsets in other topics may be deleted, and expire."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple


class Reading(NamedTuple):
    topics: Set[str] | None
    """None if they are not known, and a member may read any topic."""
    is_settled: bool
    """Whether `topics` are those of the present members. They are not during a rebalance."""
    empty_since_ms: int
    """When the last member left, or -1 if there are members or the time is not known."""
