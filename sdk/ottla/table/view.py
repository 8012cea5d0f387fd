"""What a table holds: the latest value of each key, and how far that reflects the topic.

One thread applies records, any thread may look. Looking takes no lock: `entries` changes by one key at a time,
`position` is replaced whole, and when the table is loaded again `entries` becomes another dict. `changed` guards the
rest, and is notified of a new position, of an error and of the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from ottla.client.condition import Condition
from ottla.client.guard import Guard
from ottla.errors import ErrorCode, OttlaError, SerializationError, config_error, error_from_code
from ottla.serdes.record_reader import Serdes, unreadable
from ottla.table.entry import Entry
from ottla_core.model import TopicPartition

if TYPE_CHECKING:
    from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.table")


class Watcher(Protocol):
    """Is called for each change, by the thread that makes it."""

    def on_change(self, key: Any, before: Entry | None, after: Entry | None, partition: int, offset: int) -> None: ...


class Goal:
    """The position that has to be reached before a waiting call returns.

    `ends` are the next offsets by partition; None: the end of the log, not looked up yet.
    """

    def __init__(self, ends: Mapping[int, int] | None = None) -> None:
        self.is_end: Final = ends is None
        self.ends = ends


class TableView:
    """The values of `topic` by key. One thread applies records, any number of others look."""

    def __init__(self, topic: str, serdes: Serdes, *, skip_bad: bool) -> None:
        self.topic: Final = topic
        self.serdes: Final = serdes
        self.changed: Final = Condition()
        self.guard: Final = Guard("the table", self.changed)
        self.entries: dict[Any, Entry] = {}
        self.position: Mapping[int, int] = {}
        self.caught_up = False
        self.skipped = self.loads = 0
        self.closed = False
        self.goals: dict[Goal, None] = {}
        self._error: BaseException | None = None
        self._skip_bad: Final = skip_bad
        self._watches: Final[WeakKeyDictionary[Watcher, None]] = WeakKeyDictionary()
        self._listeners: Final[dict[object, Callable[[], None]]] = {}

    # ---- the thread that applies -----------------------------------------------------------------------------------

    def apply(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> None:
        """Apply records of one partition, in order. Raises SerializationError for a key."""
        plain = self.serdes.value
        with self.changed:
            entries, watches = self.entries, list(self._watches)
            for offset, _, key_data, entry, headers in raws:
                if key_data is None:
                    self._skip(f"the record at offset {offset} of {partition} has no key")
                    continue
                serdes = self.serdes.marked(headers) if headers else self.serdes
                try:
                    key = serdes.key(key_data)
                    hash(key)
                except Exception as error:
                    self._on_bad_key(unreadable(partition, offset, error))
                    continue
                after: Entry | None = entry
                if serdes.value is not plain and entry is not None:
                    after = (serdes.value, entry)
                for watch in watches:
                    watch.on_change(key, entries.get(key), after, partition.partition, offset)
                if after is None:
                    entries.pop(key, None)
                else:
                    entries[key] = after

    def reflect(self, position: Mapping[int, int], *, caught_up: bool) -> None:
        """Note that every record below `position` is applied, and that there is no error."""
        with self.changed:
            if (position, caught_up, None) != (self.position, self.caught_up, self._error):
                self.position, self.caught_up, self._error = position, caught_up, None
                self._notify()

    def clear(self) -> None:
        """Drop everything, because the topic or its log is no longer the same."""
        with self.changed:
            before, self.entries, self.position, self.caught_up = self.entries, {}, {}, False
            for watch in list(self._watches):
                for key, entry in before.items():
                    watch.on_change(key, entry, None, -1, -1)
            for goal in [goal for goal in self.goals if goal.is_end]:
                goal.ends = None
            self._notify()

    def fail(self, error: BaseException) -> None:
        """Set the error that waiting calls raise, until the table can follow its topic again."""
        with self.changed:
            self._error, self.caught_up = error, False
            self._notify()

    def set_ends(self, goals: Iterable[Goal], ends: Mapping[int, int]) -> None:
        """Set the looked-up end of the log for these goals."""
        with self.changed:
            for goal in goals:
                goal.ends = ends
            self._notify()

    def pause(self, seconds: float) -> None:
        """Wait before another try, unless the table is closed."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed, seconds)

    # ---- other threads ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Make waiting calls raise an error, and watches end."""
        with self.changed:
            self.closed = True
            self._notify()

    def watch(self, watch: Watcher) -> None:
        """Report changes to the watch for as long as it is referenced."""
        with self.changed:
            self._watches[watch] = None

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call the listener, from other threads, whenever `changed` is notified; it must not block."""
        name = object()
        self._listeners[name] = listener
        try:
            yield
        finally:
            del self._listeners[name]

    def has_reached(self, goal: Goal) -> bool:
        """Return whether the goal is reached. Raises the error that prevents it, or ConfigError for a closed table."""
        ends, position = goal.ends, self.position
        if ends is not None and all(position.get(partition, -1) >= end for partition, end in ends.items()):
            return True
        self.check()
        return False

    def check(self) -> None:
        """Raise the table's error, if it has one."""
        if self.closed:
            raise closed_error(self.topic)
        if (error := self._error) is not None:
            raise error.again() if isinstance(error, OttlaError) else error.with_traceback(None)

    def wait_for(self, reached: Callable[[], bool], timeout: float) -> bool:
        """Wait until `reached`, for at most `timeout` seconds; return whether it is. Raises what `reached` raises, and
        ConfigError in a child after a fork, where nothing would ever come."""
        self.guard.check_process()
        with self.changed:
            return self.changed.wait_for(reached, min(timeout, TIMEOUT_MAX))

    def _notify(self) -> None:
        self.changed.notify_all()
        for listener in list(self._listeners.values()):
            listener()

    def _skip(self, message: str) -> None:
        if not self.skipped:
            logger.warning("%s: the table skips such records, and counts them in its metrics", message)
        self.skipped += 1

    def _on_bad_key(self, error: SerializationError) -> None:
        if not self._skip_bad:
            raise error
        self.skipped += 1
        logger.warning("skipped: %s", error.message)


def closed_error(topic: str) -> OttlaError:
    """Return the error for using a closed table."""
    return config_error(f"the table {topic!r} is closed", hint="create a new one")


def late_error(view: TableView, goal: Goal, timeout: float) -> OttlaError:
    """Return the error for a goal that was not reached in time."""
    ends = "the end of its topic" if goal.ends is None else dict(goal.ends)
    return error_from_code(
        ErrorCode.REQUEST_TIMED_OUT,
        f"the table {view.topic!r} has not reached {ends} within {timeout:g} s: it is at {dict(view.position)}",
        hint="wait longer; if its position does not advance, check the logs of the client and the brokers",
    )
