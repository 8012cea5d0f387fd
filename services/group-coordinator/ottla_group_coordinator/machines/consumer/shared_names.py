"""Equal sets of topic names are kept once in the process.

Many expressions in many groups match the same topics, and a set of ten thousand names takes half a megabyte.
"""

from __future__ import annotations

from sys import intern
from typing import Final
from weakref import WeakValueDictionary

_KEPT: Final[WeakValueDictionary[int, frozenset[str]]] = WeakValueDictionary()
"""By their hashes. Of different sets with the same hash, only the newest is shared."""


def shared_names(names: frozenset[str]) -> frozenset[str]:
    """Return the set that is kept for all that are equal to this one."""
    kept = _KEPT.get(hash(names))
    if kept is None or kept != names:
        kept = _KEPT[hash(names)] = frozenset(map(intern, sorted(names)))
    return kept
