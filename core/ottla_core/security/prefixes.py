"""Values by prefix, and those whose prefix a name begins with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")


class Prefixes(Generic[Value]):
    """An immutable map from prefixes, none of them empty, to values.

    Each prefix knows its parent, which is the longest other prefix that it begins with. Of the prefixes that are not
    behind a name in the alphabet, the last one begins with every prefix of the name: so these are that one or among its
    parents. A look-up costs a binary search and a walk along the parents, whatever else is in the map.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values: Final = values
        self._sorted: Final = sorted(values)
        self._parents: Final[dict[str, str]] = {}
        nested = [""]
        for prefix in self._sorted:
            while not prefix.startswith(nested[-1]):
                nested.pop()
            self._parents[prefix] = nested[-1]
            nested.append(prefix)

    def of(self, name: str) -> Iterator[Value]:
        """Yield the value of each prefix that the name begins with, the longest first."""
        at = bisect_right(self._sorted, name)
        prefix = self._sorted[at - 1] if at else ""
        while prefix:
            if name.startswith(prefix):
                yield self._values[prefix]
            prefix = self._parents[prefix]
