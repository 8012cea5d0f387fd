"""The core of every fetch session: what a client has requested, and what is due for a look (KIP-227). Pure.

A client names a partition once and then only what changes, and the broker looks only at partitions that were named or
that had an event. So a fetch costs as much as has happened since the last one, however many partitions the session has.
Two kinds of sessions share these rules. Each adds how it is found, how it answers and when it ends:

* `kafka.fetch_sessions`: a consumer's. Its partitions stay requested; a response has changes.
* `machines.follower_session`: a follower's. Events of a partition are held back while the follower has its records.

A partition is due, watched or held. It is due once it was named. The broker watches it and then looks at it, in this
order, so that no event falls between the two (rule 55). An event makes it due again, except while it is held.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from ottla_core.model import PartitionId

_LET_GO_AT_ONCE: Final = 1_000
"""A session that has ended may have watched many thousand partitions. This many are let go in one turn of the loop."""


class Parked(Protocol):
    """The fetch of a session that waits for something to answer."""

    def on_bytes(self, size_bytes: int) -> None:
        """Count bytes that can be read now, and wake the fetch if it waits for no more than has come."""
        ...

    def wake(self) -> None:
        """Wake the fetch: there is something to answer, whatever its size."""
        ...

    def close(self) -> None:
        """Let nothing wait any longer, because the session has ended or the broker shuts down."""
        ...


K = TypeVar("K", bound=Hashable)
"""How the client of a session names a partition."""
R = TypeVar("R")
"""What it requests of a partition."""
P = TypeVar("P", bound=Parked)


class SessionRoom:
    """Room for the partitions of all sessions of one kind. It bounds their memory."""

    def __init__(self, max_partitions: int = sys.maxsize) -> None:
        self.max_partitions: Final = max_partitions
        self.used = 0

    def has(self, partitions: int) -> bool:
        """Return whether there is room for this many more."""
        return self.used + partitions <= self.max_partitions


class FetchSession(Generic[K, R, P]):
    """The partitions of one session. A fetch that stands alone has a session of its own, and a room of its own."""

    def __init__(self, watchers: Watchers[Any], parked: P, room: SessionRoom | None = None) -> None:
        self.parked: Final = parked
        self.requested: Final[dict[K, R]] = {}
        self.watched: Final[dict[K, PartitionId]] = {}
        """The session hears of these partitions' events. `Watchers` keeps this."""
        self.size = 0
        self.is_idle = False
        """It is true between two fetches, of which the second may never come."""
        self.is_ended = False
        self._watchers: Final = watchers
        self.room: Final = room or SessionRoom()
        self._due: dict[K, None] = {}
        self._held: Final[set[K]] = set()
        if watchers.is_closed:
            parked.close()

    @staticmethod
    def weight(_key: K, /) -> int:
        """Return as how many partitions one counts in the room."""
        return 1

    # ---- what the client requests ------------------------------------------------------------------------------------

    def name(self, key: K, request: R) -> None:
        """Request a partition, even if it was requested before.

        It is looked at after all others that are due: a partition that got records waits for those that did not (rule
        57).
        """
        if self.is_ended:
            return
        if key not in self.requested:
            self._count(self.weight(key))
        self.requested[key] = request
        self._held.discard(key)
        self._due.pop(key, None)
        self._due[key] = None

    def forget(self, key: K) -> bool:
        """Request a partition no longer. Return whether it was requested."""
        if key not in self.requested:
            return False
        del self.requested[key]
        self._count(-self.weight(key))
        self._held.discard(key)
        self._due.pop(key, None)
        self._watchers.unwatch(self, key)
        return True

    def end(self) -> None:
        """End the session: nothing is due or watched any longer. A look under way may still ask what was requested."""
        self._count(-self.size)
        self.is_ended = True
        self._due.clear()
        self.parked.close()
        self._watchers.let_go(self)

    # ---- what is looked at -------------------------------------------------------------------------------------------

    @property
    def due(self) -> list[K]:
        """Return the partitions to look at, in turn."""
        return list(self._due)

    def look_at(self, key: K, partition: PartitionId) -> None:
        """Watch a partition, which is looked at next: an event from now on makes it due again (rule 55)."""
        self._due.pop(key, None)
        self._watchers.watch(self, key, partition)

    def look_again(self, key: K, *, first: bool = False) -> None:
        """Leave a partition due: before all others, or in its turn."""
        if first:
            self._due = {key: None} | self._due
        else:
            self._due[key] = None

    def hold(self, key: K) -> None:
        """Ignore a partition until it is named again, because the client handles its records first."""
        self._held.add(key)
        self._due.pop(key, None)

    def is_held(self, key: K) -> bool:
        """Return whether a partition's events are ignored."""
        return key in self._held

    def on_event(self, key: K) -> bool:
        """Make a watched partition due. Return whether the session waits for its events."""
        if self.is_ended or key in self._held:
            return False
        self._due[key] = None
        return True

    def _count(self, partitions: int) -> None:
        if self.is_ended:
            return
        self.size += partitions
        self.room.used += partitions


S = TypeVar("S", bound=FetchSession[Any, Any, Any])


CallSoon: TypeAlias = Callable[[Callable[[], object]], object]
"""Runs a call in a later turn of the event loop."""


def at_once(call: Callable[[], object], /) -> None:
    """Run a call where there is no event loop that others wait for."""
    call()


class Watchers(Generic[S]):
    """The sessions that watch each partition. Only they hear of its events."""

    def __init__(self, call_soon: CallSoon = at_once) -> None:
        self.is_closed = False
        self._call_soon: Final = call_soon
        # The values are None. Unlike a set, a dict has an order: those who came first are woken first.
        self._by_partition: Final[dict[PartitionId, dict[tuple[S, Any], None]]] = {}

    def watch(self, session: S, key: Any, partition: PartitionId) -> None:
        """Let an event of the partition make `key` due. The partition that `key` named before is no longer watched."""
        if session.watched.get(key) != partition and not session.is_ended:
            self.unwatch(session, key)
            session.watched[key] = partition
            self._by_partition.setdefault(partition, {})[session, key] = None

    def unwatch(self, session: S, key: Any) -> None:
        partition = session.watched.pop(key, None)
        if partition is not None:
            watching = self._by_partition[partition]
            watching.pop((session, key), None)
            if not watching:
                del self._by_partition[partition]

    def let_go(self, session: S) -> None:
        """Unwatch all partitions of a session that has ended."""
        for key in list(islice(session.watched, _LET_GO_AT_ONCE)):
            self.unwatch(session, key)
        if session.watched:
            self._call_soon(partial(self.let_go, session))

    def on_bytes(self, partition: PartitionId, size_bytes: int) -> None:
        """Note that more bytes of the partition can be read."""
        for session, _ in self.touch(partition):
            session.parked.on_bytes(size_bytes)

    def wake(self, partition: PartitionId) -> None:
        """Note that leadership, epoch, high watermark or existence of the partition changed. Parked fetches look
        again."""
        for session, _ in self.touch(partition):
            session.parked.wake()

    def touch(self, partition: PartitionId) -> Collection[tuple[S, Any]]:
        """Note an event that belongs in the next response, but is no reason for one. Return the sessions that wait for
        it, each with its key of the partition.

        A session that is idle hears of the first event only. Its next look at the partition watches it again, so a
        session that is never used again costs nothing more.
        """
        watching = self._by_partition.get(partition)
        if watching is None:
            return ()
        touched = [(session, key) for session, key in watching if session.on_event(key)]
        for session, key in touched:
            if session.is_idle:
                self.unwatch(session, key)
        return touched

    def of(self, partition: PartitionId) -> Collection[tuple[S, Any]]:
        """Return the sessions that watch a partition, with its key in each."""
        return self._by_partition.get(partition, ())

    @property
    def partitions(self) -> Collection[PartitionId]:
        """These are the partitions that any session watches."""
        return self._by_partition.keys()

    def close(self) -> None:
        """Let no fetch wait any longer, because the broker shuts down. Parked fetches are answered with what there
        is."""
        self.is_closed = True
        for watching in self._by_partition.values():
            for session, _ in watching:
                session.parked.close()

    def __len__(self) -> int:
        """Return the number of watched partitions, counted once for each session."""
        return sum(len(watching) for watching in list(self._by_partition.values()))
