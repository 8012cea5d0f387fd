"""A look for what has expired goes through all names of a shard, some at a time, and lists the names only once."""

from __future__ import annotations

from typing import NamedTuple


class Looked(NamedTuple):
    """Notes, as a change in memory, that the first `left` of the `names` are still to be looked at."""

    names: list[str]
    left: int

    def rest(self) -> list[str]:
        """Return the names that are left, in the list with which the look began."""
        del self.names[self.left :]
        return self.names
