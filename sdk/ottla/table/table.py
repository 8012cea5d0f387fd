"""Table: the latest value of each key of a compacted topic."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar, overload

from ottla.client.guard import Guard, whether_owned
from ottla.client.security.logins import Login
from ottla.client.security.tls import Tls
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
from ottla_core.forks import in_children

D = TypeVar("D")

_OURS: Final = {"start": "earliest", "auto_offset_reset": "none", "key": "bytes", "value": "bytes"}

_client_numbers = itertools.count(1)


class Table(Generic[K, V]):
    """A table of the latest value of each key in a topic, kept up to date in the background.

        with ottla.Table("orders") as table:
            table.wait_until_caught_up()
            print(table.get("eu"), len(table))

    The table reads all partitions in parallel from their beginning, then follows new records. A record without a value
    removes its key. The table skips and counts records without a key, and logs the first one. Values are kept as bytes,
    and deserialized when you access them. Keys are deserialized once and must be hashable; keys that are equal in
    Python count as one key.

    `get`, `[]`, `in`, `len` and `items` use the data loaded so far, in memory. Any thread may call them, even while no
    broker is reachable. After an error in the background, the table logs the error and retries; calls that wait raise
    the error.

    If the topic is recreated, if records are deleted before the table has read them, or if a new leader lacks records
    that the table has read, the table is emptied and loaded again. If a process is disconnected for longer than
    `delete.retention.ms`, its table may keep deleted keys, because it may miss their tombstones; this applies to any
    reader of a compacted topic.

    Args:
        topic: the name of the topic. The topic need not be compacted, but the table always reads it from the beginning.
        on_bad_record: what to do with a record whose key can't be deserialized. With "raise", the table stops at this
            record, and calls that wait raise SerializationError. With "skip", the table skips the record and logs a
            line. Accessing a value that can't be deserialized raises SerializationError.
        bootstrap, key, value, client_rack, request_timeout, connect_timeout, metadata_max_age, login, tls, client_id:
            as for a Consumer. The table finds a new partition within `metadata_max_age` seconds, or when a call waits
            for it.
        snapshot: a directory for a snapshot of the table, `<topic>.snapshot`. The table writes the snapshot every five
            minutes and on close, and reads it at the next start. The snapshot contains raw bytes. With a snapshot, the
            table keeps a second copy of its keys, as raw bytes, in memory.
        config: Consumer settings under Kafka's names, such as {"fetch.max.bytes": 8388608}. A table has no group.

    Raises:
        ConfigError: an argument is not valid. For an unknown topic, the table raises UnknownTopicError only after it
            has started.
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
        login: Login | None = None,
        tls: Tls | bool | None = None,
        client_id: str | None = None,
        snapshot: PathLike | None = None,
        config: Mapping[str, Any] | None = None,
        _transport: Transport | None = None,
    ) -> None:
        arguments = {name: given for name, given in locals().items() if name in _DEFAULTS}
        settings = merge_config(CONSUMER_NAMES, {**_CONSUMERS, **arguments}, _CONSUMERS, config or {})
        if settings["group"] is not None or settings["auto_offset_reset"] is not None:
            raise config_error(
                "a table has no group, and always reads from the beginning",
                hint="remove group.id and auto.offset.reset from config=",
            )
        serdes = serdes_of(deserializer(settings["key"], "key"), deserializer(settings["value"], "value"))
        skip_bad = one_of(settings["on_bad_record"], "on_bad_record", ("raise", "skip")) == "skip"
        self.client_id: Final[str] = settings["client_id"] or f"ottla-table-{next(_client_numbers)}"
        ours = {**settings, **_OURS, "client_id": self.client_id, "_transport": _transport}
        Consumer(topic, **ours).close()  # it opens nothing, but checks the arguments
        self._view: Final = TableView(topic, serdes, skip_bad=skip_bad)
        self._read: Final = serdes.value
        local = None if snapshot is None else TableSnapshot(directory_at(snapshot), topic)
        self._follower: Final = Follower(self._view, lambda: Consumer(topic, **ours), local)
        self._guard: Final = self._view.guard
        self._is_open = False  # from start to end; `get` has no time to check which process this is
        _tables[self] = None
        self._end: Final = weakref.finalize(self, _end, self._follower, self._guard)
        self._end.atexit = False

    def __repr__(self) -> str:
        state = f"{len(self._view.entries)} keys" if self._is_open else "not open"
        return f"Table({self._view.topic!r}, {state})"

    def start(self) -> Self:
        """Start loading the table.

        A `with` block and every call that waits also start it. A second call does nothing.
        """
        self._guard.check()
        if self._is_open:
            return self
        with self._view.changed:
            if self._view.closed:
                raise closed_error(self._view.topic)
            if not self._is_open:
                self._is_open = True  # set first: a signal may come while the thread starts, and it can start only once
                self._follower.start()
        return self

    # ---- content ---------------------------------------------------------------------------------------------------

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of `key`, or `default` if the table does not have the key.

        Raises SerializationError, and ConfigError if the table has not started.
        """
        if not self._is_open:
            self._refuse()
        entry = self._view.entries.get(key)
        return default if entry is None else read_value(self._view.topic, self._read, key, entry)

    def __getitem__(self, key: K) -> V:
        """Like `get`, but raises KeyError for a missing key."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value  # type: ignore[return-value]  # not the sentinel

    def __contains__(self, key: object) -> bool:
        """Return whether the key has a value."""
        self._check()
        return key in self._view.entries

    def __len__(self) -> int:
        """Return how many keys have a value."""
        self._check()
        return len(self._view.entries)

    def __iter__(self) -> Iterator[K]:
        """Iterate over the current keys."""
        self._check()
        return iter(list(self._view.entries))

    def keys(self) -> Iterator[K]:
        """Iterate over the current keys."""
        return iter(self)

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over the current keys, each with its value at the moment when it is yielded.

        The table may change during the iteration, which skips keys that were removed in the meantime. Raises
        SerializationError.
        """
        self._check()
        entries = self._view.entries
        keys = list(entries)
        found = ((key, entry) for key in keys if (entry := entries.get(key)) is not None)
        return ((key, read_value(self._view.topic, self._read, key, entry)) for key, entry in found)

    def watch(self, key: K | None = None) -> Watch[K, V]:
        """Start the table, and return an iterator over future changes to one key or, by default, to all keys.

        If you iterate slowly, several changes to the same key are merged into one change. Changes during loading are
        included. To start from the current content, call `watch` first, then `items`. The iterator waits for changes,
        and ends when the table is closed.
        """
        hash(key)  # every record's key is hashable
        # The watch is there before the table starts, or it would miss what a fast load has changed in between.
        watch: Watch[K, V] = Watch(self, self._view, key)
        self.start()
        return watch

    # ---- progress --------------------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether the table has reached the end of every partition, as last reported by the brokers.

        Brokers report the end when loading starts and with each fetch. The value is False while an error keeps the
        table from following the topic.
        """
        return self._view.caught_up

    @property
    def position(self) -> dict[int, int]:
        """The next offset to read in each partition; the table reflects all records below it.

        It is empty before the first load.
        """
        return dict(self._view.position)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the table, by name.

        `keys` is the number of keys in the table. `records-skipped-total` counts records that were skipped because
        their key was missing or could not be deserialized. `loads-total` is 1 plus the number of times that the table
        was emptied and loaded again.
        """
        view = self._view
        return {"keys": len(view.entries), "records-skipped-total": view.skipped, "loads-total": view.loads}

    def wait_until_caught_up(self, timeout: Duration = 60.0) -> None:
        """Look up the current end of the log, and wait until the table reflects every record before it.

        Raises the error that keeps the table from catching up (UnknownTopicError, ConnectError, SerializationError …),
        or ottla.TimeoutError.
        """
        self._wait(Goal(), seconds(timeout, "timeout"))

    def wait_for(self, partition: int, offset: int, timeout: Duration = 60.0) -> None:
        """Wait until the table reflects the record at `offset` of `partition`, such as a record that you just sent.

        Raises like `wait_until_caught_up`.
        """
        self._wait(record_goal(partition, offset), seconds(timeout, "timeout"))

    def _wait(self, goal: Goal, timeout: float) -> None:
        with self._aiming_at(goal):
            if not self._view.wait_for(lambda: self._view.has_reached(goal), timeout):
                raise late_error(self._view, goal, timeout)

    @contextmanager
    def _aiming_at(self, goal: Goal) -> Iterator[None]:
        """Tell the table's thread of a goal while a call waits for it."""
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
        """Release all resources. Waiting calls raise an error, and watches end. A second call does nothing.

        In a signal handler that interrupts a call in the same thread, `close` does not wait for the table's thread. In
        a forked child, `close` does nothing.
        """
        if self._guard.foreign:
            return
        self._is_open = False
        self._follower.end()
        self._end.detach()  # last: a second call finishes a close that a signal has interrupted
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
        """Raise the reason why the table can't be used now in this process."""
        self._guard.check_process()
        if self._view.closed:
            raise closed_error(self._view.topic)
        raise config_error(
            f"the table {self._view.topic!r} was not started", hint="use it in a `with` block, or call start()"
        )


_MISSING: Final = object()

_tables: Final[weakref.WeakKeyDictionary[Table[Any, Any], None]] = weakref.WeakKeyDictionary()

_CONSUMERS: Final = {
    name: default
    for name, default in (Consumer.__init__.__kwdefaults__ or {}).items()
    if name not in ("config", "_transport")
}
_DEFAULTS: Final = (Table.__init__.__kwdefaults__ or {}).keys() & _CONSUMERS.keys()


def record_goal(partition: int, offset: int) -> Goal:
    """Return the goal that the record at that offset is reflected. Raises ConfigError."""
    hint = "pass an int of at least 0, such as the partition or offset of a RecordMetadata"
    for name, number in (("partition", partition), ("offset", offset)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise config_error(f"{name}={number!r} is not valid", hint=hint)
    return Goal({partition: offset + 1})


def _end(follower: Follower, guard: Guard) -> None:
    """End a table that is closed or garbage; in a child after a fork do nothing, since everything is the parent's."""
    if not guard.foreign:
        follower.end()


def _after_fork_in_child() -> None:
    for table in list(_tables):
        table._is_open = False


in_children(_after_fork_in_child)
