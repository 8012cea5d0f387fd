"""Groups items by the addresses of clients, so that one address can't crowd out the others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class ByHost(Generic[T]):
    """Items by the addresses of their clients. The items of one address keep the order in which they were added."""

    def __init__(self) -> None:
        self._items: Final[dict[str, dict[T, None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def count(self, host: str) -> int:
        return len(self._items.get(host, ()))

    def add(self, host: str, item: T) -> None:
        """Add the item, unless it is there already. Then it keeps its place."""
        self._items.setdefault(host, {})[item] = None

    def drop(self, host: str, item: T) -> None:
        """Forget the item, if it is there."""
        of_host = self._items.get(host)
        if of_host is not None:
            of_host.pop(item, None)
            if not of_host:
                del self._items[host]

    def next(self) -> T:
        """Take out the first item of the next address. The addresses take turns."""
        host, of_host = next(iter(self._items.items()))
        item = next(iter(of_host))
        del self._items[host], of_host[item]
        if of_host:
            self._items[host] = of_host
        return item

    def of_busiest(self) -> Collection[T]:
        """Return the items of the address that has the most."""
        return max(self._items.values(), key=len, default={}).keys()
