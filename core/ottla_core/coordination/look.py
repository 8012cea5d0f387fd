"""A look through all that a shard holds, some of it at a time, for what has expired. It lists the names once."""

from __future__ import annotations

from typing import NamedTuple


class Looked(NamedTuple):
    """A change in memory: the first `left` of the `names` of a look are still to be looked at."""

    names: list[str]
    left: int

    def rest(self) -> list[str]:
        """The names that are left, in the list that the look began with."""
        del self.names[self.left :]
        return self.names
