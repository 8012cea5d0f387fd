"""A mapping whose copy costs only what was changed in it, because copies share everything else.

A dict that is never written to lies below, and the changes since lie above it. Iteration is a dict's, in its order,
whatever Python's hashes are: decisions that go through all partitions have the same result in every process.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

FEW: Final = 1000
"""Mappings with fewer entries are copied whole, in microseconds, and a dict finds entries faster."""
_DELETED: Final[Any] = object()
_UNCHANGED: Final[Any] = object()


def copy_of(mapping: Mapping[K, V]) -> MutableMapping[K, V]:
    """Return a copy that may be written to. `mapping` may then no longer be written to."""
    if isinstance(mapping, LayeredMapping):
        return mapping.copy()
    return dict(mapping) if len(mapping) < FEW else LayeredMapping(mapping, {})


class LayeredMapping(MutableMapping[K, V]):
    """A mapping in two layers. Only one thread may use it while it is written. After that any thread may read it."""

    __slots__ = ("_above", "_below")

    def __init__(self, below: Mapping[K, V], above: dict[K, V]) -> None:
        self._below = below
        self._above = above

    def copy(self) -> MutableMapping[K, V]:
        """Copy only the changes while they are at most √n of n entries, and everything otherwise. So √n copies cost one
        full copy."""
        above = self._above  # read before what is below, as in all reads: `_whole` replaces them the other way round
        if len(above) ** 2 > len(self._below):
            return copy_of(self._whole())
        return LayeredMapping(self._below, dict(above))

    def get(self, key: K, default: Any = None) -> Any:
        value = self._above.get(key, _UNCHANGED)
        if value is _UNCHANGED:
            return self._below.get(key, default)
        return default if value is _DELETED else value

    def __getitem__(self, key: K) -> V:
        value: V = self.get(key, _DELETED)
        if value is _DELETED:
            raise KeyError(key)
        return value

    def __contains__(self, key: Any) -> bool:
        return self.get(key, _DELETED) is not _DELETED

    def __setitem__(self, key: K, value: V) -> None:
        if self._above.get(key) is _DELETED:
            self._whole()  # the key has lost its position, and comes last
        self._above[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._above[key] = _DELETED

    def __iter__(self) -> Iterator[K]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def items(self) -> ItemsView[K, V]:
        return self._whole().items()

    def values(self) -> ValuesView[V]:
        return self._whole().values()

    def _whole(self) -> Mapping[K, V]:
        """Return all entries in one layer, and keep it. If two threads do this at the same time, each finds all of
        them."""
        if above := self._above:
            whole = dict(self._below)
            for key, value in above.items():
                if value is _DELETED:
                    whole.pop(key, None)
                else:
                    whole[key] = value
            # replaced first, so that another thread that reads now finds the same entries in both layers
            self._below = whole
            self._above = {}
        return self._below
