"""Changes of a table, for one who watches.

A watch that is slow misses none of the keys: of each it has the latest change, with the value before the first that it
has not seen. So what waits for it is bounded by the keys that it has seen and those that the table has.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, Final, Generic, Self

from ottla.client.units import Duration, seconds
from ottla.generics import K, V
from ottla.table.entry import Entry, read_value
from ottla.table.view import TableView


class Change(Generic[K, V]):
    """One key's value is another.

    Attributes:
        key: of which.
        partition, offset: of the record that changed it; -1 where the table was emptied to be loaded anew, or began
            with its snapshot.
    """

    __slots__ = ("_after", "_before", "_view", "key", "offset", "partition")

    def __init__(
        self, view: TableView, key: K, before: Entry | None, after: Entry | None, partition: int, offset: int
    ) -> None:
        self._view = view
        self._before = before
        self._after = after
        self.key = key
        self.partition = partition
        self.offset = offset

    @property
    def old(self) -> V | None:
        """The value before, None for none. Raises SerializationError."""
        return self._read(self._before)

    @property
    def value(self) -> V | None:
        """The value now, None where the key was removed. Raises SerializationError."""
        return self._read(self._after)

    def _read(self, entry: Entry | None) -> V | None:
        value: V | None = read_value(self._view.topic, self._view.serdes.value, self.key, entry)
        return value

    def __repr__(self) -> str:
        return f"Change({self.key!r:.60}: {self._before!r:.60} -> {self._after!r:.60}, {self.partition}@{self.offset})"


class Watch(Generic[K, V]):
    """An iterator over changes, until the table is closed. While it is referenced, so is the table (`owner`)."""

    def __init__(self, owner: object, view: TableView, only: K | None) -> None:
        self._owner: Final = owner
        self._view: Final = view
        self._only: Final = only
        self._lock: Final = RLock()
        self._waiting: dict[Any, tuple[Entry | None, Entry | None, int, int]] = {}
        view.watch(self)

    def on_change(self, key: Any, before: Entry | None, after: Entry | None, partition: int, offset: int) -> None:
        """Of the table's thread: keep it until it is taken; a change back to nothing is none."""
        if self._only is not None and key != self._only:
            return
        with self._lock:
            if (seen := self._waiting.pop(key, None)) is not None:
                before = seen[0]
            if before is not None or after is not None:
                self._waiting[key] = (before, after, partition, offset)

    def take(self) -> Change[K, V] | None:
        """The next change if there is one."""
        with self._lock:
            for key in self._waiting:
                return Change(self._view, key, *self._waiting.pop(key))
        return None

    def poll(self, timeout: Duration = 1.0) -> Change[K, V] | None:
        """The next change, waited for up to `timeout` seconds; None where there is none. Raises like iterating."""
        self._view.wait_for(self.is_ready, seconds(timeout, "timeout"))
        if (change := self.take()) is None:
            self._view.check()
        return change

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change[K, V]:
        """The next change, however long it takes. Raises what is wrong with the table; the next call waits again."""
        while self._view.wait_for(self.is_ready, float("inf")) and not self.is_over:
            if (change := self.take()) is not None:  # else another thread that iterates has taken it
                return change
        raise StopIteration

    def is_ready(self) -> bool:
        """Whether there is a change, or the end. Raises what is wrong with the table."""
        if not self._waiting and not self._view.closed:
            self._view.check()
        return bool(self._waiting) or self._view.closed

    @property
    def is_over(self) -> bool:
        """Whether the table is closed, and every change was taken."""
        return self._view.closed and not self._waiting
