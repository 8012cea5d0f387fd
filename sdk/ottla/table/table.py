"""Table: a compacted topic as the latest value of each of its keys."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar, overload

from ottla.client.guard import Guard, in_children, whether_owned
from ottla.client.settings import CONSUMER_NAMES, merge_config, one_of
from ottla.client.transport import Transport
from ottla.client.units import Duration, seconds
from ottla.consumer.consumer import Consumer
from ottla.errors import config_error
from ottla.generics import K, V
from ottla.serdes.record_reader import serdes_of
from ottla.serdes.serdes import DeserializerLike, deserializer
from ottla.table.entry import read_value
from ottla.table.follower import Follower
from ottla.table.snapshot import PathLike, TableSnapshot, directory_at
from ottla.table.view import Goal, TableView, closed_error, late_error
from ottla.table.watch import Watch

D = TypeVar("D")

_OURS: Final = {"start": "earliest", "auto_offset_reset": "none", "key": "bytes", "value": "bytes"}

_client_numbers = itertools.count(1)


class Table(Generic[K, V]):
    """The latest value of each key of a topic, kept up in the background.

        with ottla.Table("orders") as table:
            table.wait_until_caught_up()
            print(table.get("eu"), len(table))

    It reads all partitions from their beginning, side by side, then what is written; a record without a value removes
    its key. Records without a key are skipped, logged once and counted. Values are kept as bytes, and deserialized
    when they are looked at. Keys are deserialized once, and must be hashable; those that are equal in Python are one.

    `get`, `[]`, `in`, `len` and `items` answer from memory with what is there so far, from any thread and also while no
    broker can be reached. What goes wrong in the background is logged, tried again, and raised by calls that wait.

    Where the topic was made anew, records were deleted that were yet to be read, or a new leader lacks what was read,
    the table is emptied and loads again. A table whose process was cut off for longer than `delete.retention.ms`
    may keep keys whose removal it never saw, as every reader of a compacted topic may.

    Args:
        topic: its name. One that is not compacted will do; but it is read from its beginning.
        on_bad_record: a record whose key can't be deserialized: "raise" (the table stays where it is, and calls that
            wait raise SerializationError) or "skip" it with a line in the log. A value that can't be raises where it is
            looked at.
        bootstrap, key, value, client_rack, request_timeout, connect_timeout, metadata_max_age, client_id: as of a
            Consumer. A partition that is added is found within `metadata_max_age` seconds, or when it is waited for.
        snapshot: a directory for a snapshot of the table, `<topic>.snapshot`: written every five minutes and when the
            table is closed, read at the next start. Raw bytes; it costs their keys once more in memory.
        config: settings of a Consumer under Kafka's names, such as {"fetch.max.bytes": 8388608}. Without a group.

    Raises:
        ConfigError: an argument that can't be. The topic is looked up when the table is started.
    """

    def __init__(
        self,
        topic: str,
        *,
        bootstrap: str | Sequence[str] | None = None,
        key: DeserializerLike[K] = "auto",
        value: DeserializerLike[V] = "auto",
        on_bad_record: Literal["raise", "skip"] = "raise",
        client_rack: str = "",
        request_timeout: Duration = 30.0,
        connect_timeout: Duration = 5.0,
        metadata_max_age: Duration = 300.0,
        client_id: str | None = None,
        snapshot: PathLike | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
    ) -> None:
        arguments = {name: given for name, given in locals().items() if name in _DEFAULTS}
        settings = merge_config(CONSUMER_NAMES, {**_CONSUMERS, **arguments}, _CONSUMERS, config or {})
        if settings["group"] is not None or settings["auto_offset_reset"] is not None:
            raise config_error(
                "a table has no group, and always reads from the beginning", hint="leave them out of config="
            )
        serdes = serdes_of(deserializer(settings["key"], "key"), deserializer(settings["value"], "value"))
        skip_bad = one_of(settings["on_bad_record"], "on_bad_record", ("raise", "skip")) == "skip"
        self.client_id: Final[str] = settings["client_id"] or f"ottla-table-{next(_client_numbers)}"
        ours = {**settings, **_OURS, "client_id": self.client_id, "_transport": _transport}
        Consumer(topic, **ours).close()  # it has opened nothing; but it has looked at the arguments
        self._view: Final = TableView(topic, serdes, skip_bad=skip_bad)
        self._read: Final = serdes.value
        local = None if snapshot is None else TableSnapshot(directory_at(snapshot), topic)
        self._follower: Final = Follower(self._view, lambda: Consumer(topic, **ours), local)
        self._guard: Final = self._view.guard
        self._is_open = False  # from its start to its end; `get` has no time to look which process this is
        _tables.add(self)
        self._end: Final = weakref.finalize(self, _end, self._follower, self._guard)
        self._end.atexit = False

    def start(self) -> Self:
        """Begin to load. A `with` block does, and so does whatever waits. A second call does nothing."""
        self._guard.check()
        if self._is_open:
            return self
        with self._view.changed:
            if self._view.closed:
                raise closed_error(self._view.topic)
            if not self._is_open:
                self._is_open = True  # before: a signal may come while the thread starts, which it does once
                self._follower.start()
        return self

    # ---- what is there ---------------------------------------------------------------------------------------------

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """The value of `key`, or `default`. Raises SerializationError, and ConfigError where it was not started."""
        if not self._is_open:
            self._refuse()
        entry = self._view.entries.get(key)
        return default if entry is None else read_value(self._view.topic, self._read, key, entry)

    def __getitem__(self, key: K) -> V:
        """The same; raises KeyError for a key that is not there."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value  # type: ignore[return-value]  # not the sentinel

    def __contains__(self, key: object) -> bool:
        """Whether the key has a value."""
        self._check()
        return key in self._view.entries

    def __len__(self) -> int:
        """How many keys have a value."""
        self._check()
        return len(self._view.entries)

    def __iter__(self) -> Iterator[K]:
        """The keys that are there now."""
        self._check()
        return iter(list(self._view.entries))

    def keys(self) -> Iterator[K]:
        """The same."""
        return iter(self)

    def items(self) -> Iterator[tuple[K, V]]:
        """Each key that is there now, with its value when it is its turn; keys that are removed meanwhile are left out.

        The table may change meanwhile. Raises SerializationError.
        """
        self._check()
        entries = self._view.entries
        keys = list(entries)
        found = ((key, entry) for key in keys if (entry := entries.get(key)) is not None)
        return ((key, read_value(self._view.topic, self._read, key, entry)) for key, entry in found)

    def watch(self, key: K | None = None) -> Watch[K, V]:
        """An iterator over the changes from now on, of all keys or of one; starts the table.

        While a watch is slow, changes of one key become one. Those of the loading are among them: to begin with what is
        there, watch first and look at `items` then. Iterating waits, and ends when the table is closed.
        """
        hash(key)  # no record has one that can't be
        self.start()
        return Watch(self, self._view, key)

    # ---- how far it is ---------------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether the view has come to the ends of all partitions that brokers have reported so far: those looked up
        when it began to load, and with each fetch since. False while something keeps it from following."""
        return self._view.caught_up

    @property
    def position(self) -> dict[int, int]:
        """The next offset of each partition: the records below are in the view. Empty before anything is loaded."""
        return dict(self._view.position)

    @property
    def metrics(self) -> dict[str, float]:
        """`keys` in the view, `records-skipped-total` for want of a (readable) key, `loads-total`: 1, and one more for
        each time that it was emptied and loaded anew."""
        view = self._view
        return {"keys": len(view.entries), "records-skipped-total": view.skipped, "loads-total": view.loads}

    def wait_until_caught_up(self, timeout: Duration = 60.0) -> None:
        """Wait until the view reflects all that is in the log at the time of this call, which is looked up.

        Raises what keeps it from there (UnknownTopicError, ConnectError, SerializationError …), ottla.TimeoutError.
        """
        self._wait(Goal(), seconds(timeout, "timeout"))

    def wait_for(self, partition: int, offset: int, timeout: Duration = 60.0) -> None:
        """Wait until the view reflects the record at `offset` of `partition`, such as one that was just sent.

        Raises like `wait_until_caught_up`.
        """
        self._wait(record_goal(partition, offset), seconds(timeout, "timeout"))

    def _wait(self, goal: Goal, timeout: float) -> None:
        with self._aiming_at(goal):
            if not self._view.wait_for(lambda: self._view.has_reached(goal), timeout):
                raise late_error(self._view, goal, timeout)

    @contextmanager
    def _aiming_at(self, goal: Goal) -> Iterator[None]:
        """For one who waits until the goal is reached: the table's thread knows of it meanwhile."""
        self.start()
        self._view.goals[goal] = None
        try:
            if goal.ends is None or not self._view.position.keys() >= goal.ends.keys():
                self._follower.attend()
            yield
        finally:
            del self._view.goals[goal]

    # ---- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of everything: who waits gets an error, watches end. A second call does nothing.

        In a signal handler that interrupts a call of the same thread it does not wait for the table's thread. In a
        child after a fork it does nothing.
        """
        if self._guard.foreign:
            return
        self._is_open = False
        self._follower.end()
        self._end.detach()  # after: a second call ends what a signal has interrupted
        if not whether_owned(self._view.changed)():
            self._follower.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if not self._is_open:
            self._refuse()

    def _refuse(self) -> None:
        """Raise why the table can't be used here and now."""
        self._guard.check_process()
        if self._view.closed:
            raise closed_error(self._view.topic)
        raise config_error(
            f"the table {self._view.topic!r} was not started", hint="use it in a `with` block, or call start()"
        )


_MISSING: Final = object()

_tables: Final[weakref.WeakSet[Table[Any, Any]]] = weakref.WeakSet()

_CONSUMERS: Final = {
    name: default
    for name, default in (Consumer.__init__.__kwdefaults__ or {}).items()
    if name not in ("config", "_transport")
}
_DEFAULTS: Final = (Table.__init__.__kwdefaults__ or {}).keys() & _CONSUMERS.keys()


def record_goal(partition: int, offset: int) -> Goal:
    """That the record there is reflected. Raises ConfigError."""
    for name, number in (("partition", partition), ("offset", offset)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise config_error(f"{name}={number!r} is not legal", hint="give a number, as RecordMetadata has it")
    return Goal({partition: offset + 1})


def _end(follower: Follower, guard: Guard) -> None:
    """Of a table that is closed, or garbage; in a child after a fork all of it is the parent's."""
    if not guard.foreign:
        follower.end()


def _after_fork_in_child() -> None:
    for table in list(_tables):
        table._is_open = False


in_children(_after_fork_in_child)
