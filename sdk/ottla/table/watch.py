"""A watch over a table's changes.

A slow watch misses no key: for each key it keeps the latest change, with the value from before the first change that it
has not seen. So the changes that wait for it are bounded by the keys that it has seen and those in the table.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, Final, Generic, Self

from ottla.client.units import Duration, seconds
from ottla.generics import K, V
from ottla.table.entry import Entry, read_value
from ottla.table.view import TableView


class Change(Generic[K, V]):
    """A change to the value of one key.

    Attributes:
        key: the key.
        partition, offset: the position of the record that changed the value; both are -1 if the change comes from a
            reload of the table or from its snapshot.
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
        """The old value, or None if the key had no value. Raises SerializationError."""
        return self._read(self._before)

    @property
    def value(self) -> V | None:
        """The new value, or None if the key was removed. Raises SerializationError."""
        return self._read(self._after)

    def _read(self, entry: Entry | None) -> V | None:
        value: V | None = read_value(self._view.topic, self._view.serdes.value, self.key, entry)
        return value

    def __repr__(self) -> str:
        return f"Change({self.key!r:.60}: {self._before!r:.60} -> {self._after!r:.60}, {self.partition}@{self.offset})"


class Watch(Generic[K, V]):
    """An iterator over changes to a table, which ends when the table is closed.

    It keeps a reference to the table (`owner`).
    """

    def __init__(self, owner: object, view: TableView, only: K | None) -> None:
        self._owner: Final = owner
        self._view: Final = view
        self._only: Final = only
        self._lock: Final = RLock()
        self._waiting: dict[Any, tuple[Entry | None, Entry | None, int, int]] = {}
        view.watch(self)

    def on_change(self, key: Any, before: Entry | None, after: Entry | None, partition: int, offset: int) -> None:
        """Queue a change until it is taken.

        The table's thread calls this method. A key that is added and removed before its change is taken yields no
        change.
        """
        if self._only is not None and key != self._only:
            return
        with self._lock:
            if (seen := self._waiting.pop(key, None)) is not None:
                before = seen[0]
            if before is not None or after is not None:
                self._waiting[key] = (before, after, partition, offset)

    def take(self) -> Change[K, V] | None:
        """Return the next change, or None if no change is queued."""
        with self._lock:
            for key in self._waiting:
                return Change(self._view, key, *self._waiting.pop(key))
        return None

    def poll(self, timeout: Duration = 1.0) -> Change[K, V] | None:
        """Wait up to `timeout` seconds for the next change, and return it or None. Raises like iterating."""
        self._view.wait_for(self.is_ready, seconds(timeout, "timeout"))
        if (change := self.take()) is None:
            self._view.check()
        return change

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change[K, V]:
        """Return the next change, however long it takes. Raises the table's error; the next call waits again."""
        while self._view.wait_for(self.is_ready, float("inf")) and not self.is_over:
            if (change := self.take()) is not None:  # otherwise another thread that iterates has taken it
                return change
        raise StopIteration

    def is_ready(self) -> bool:
        """Return whether a change is queued or the watch has ended. Raises the table's error."""
        if not self._waiting and not self._view.closed:
            self._view.check()
        return bool(self._waiting) or self._view.closed

    @property
    def is_over(self) -> bool:
        """Return whether the table is closed and every change has been taken."""
        return self._view.closed and not self._waiting
