"""The history of a group and its causes, kept so that a rebalance can be explained. It is bounded, and only in
memory."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla_core.errors import OttlaError
from ottla_core.kafka_formats.consumer_protocol import assigned_numbers
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.members import Member

KEPT: Final = 200
"""The most events of a group."""

MOST_BYTES: Final = 1 << 20
"""About how much memory the events of all groups of a shard may take. Beyond it, the events of the group with the
longest rest go."""

MOST_READ: Final = 20_000
"""How many topics and partitions of what a group's members tell each other are looked at in one decision, at most.

A client may name hundreds of thousands, which need not exist. To go through them would take too long for one turn of
the loop, and to remember them megabytes for each group.
"""

_EVENT_BYTES: Final = 250
_LONGEST: Final = 200
"""The most characters that are kept of a client's text."""


class Kind(Enum):
    """What has happened. REVOKES to SETTLED are of the consumer protocol."""

    JOINED = "joined"
    LEFT = "left"
    EVICTED = "evicted"
    REPLACED = "replaced"
    REBALANCE_BEGAN = "rebalance-began"
    GENERATION = "generation"
    ASSIGNED = "assigned"
    REVOKES = "revokes"
    WAITS = "waits"
    RECONCILED = "reconciled"
    TARGET = "target"
    SETTLED = "settled"
    MIGRATED = "migrated"
    LOADED = "loaded"


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """`duration_ms` and the `moved` partitions are of a rebalance that has ended."""

    at_ms: int
    kind: Kind
    cause: str
    generation: int
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    duration_ms: int = 0
    moved: int = 0

    @property
    def size_bytes(self) -> int:
        """This is about how much memory it takes."""
        texts = (self.cause, self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return _EVENT_BYTES + sum(map(len, texts))


@dataclass(frozen=True, slots=True)
class Happened:
    """The events of one decision in a group, in order. They are both a change in memory and an effect."""

    group: str
    events: tuple[HistoryEvent, ...]


class History:
    """What has happened in the groups of a shard, for `Group.ExplainGroup`: bounded in bytes, whatever a group does."""

    def __init__(self) -> None:
        self._events: Final[OrderedDict[str, deque[HistoryEvent]]] = OrderedDict()
        self._size_bytes = 0

    def add(self, happened: Happened) -> None:
        """Note events."""
        events = self._events.setdefault(happened.group, deque())
        self._events.move_to_end(happened.group)
        for event in happened.events:
            events.append(event)
            self._size_bytes += event.size_bytes
        while len(events) > KEPT:
            self._size_bytes -= events.popleft().size_bytes
        while self._size_bytes > MOST_BYTES and len(self._events) > 1:
            self.forget(next(iter(self._events)))

    def of(self, group: str) -> Sequence[HistoryEvent]:
        """Return the events of a group, oldest first."""
        return tuple(self._events.get(group, ()))

    def forget(self, group: str) -> None:
        """Forget the history of a group."""
        self._size_bytes -= sum(event.size_bytes for event in self._events.pop(group, ()))


def shortened(text: str) -> str:
    """Return the beginning of a client's text."""
    return text[:_LONGEST]


Readers = Mapping[TopicPartition, str]
"""The member id that reads each partition."""


def readers(members: Iterable[Member]) -> Readers | None:
    """Return the reader of each partition, by the assignments of the members, or None for more than MOST_READ. It is
    empty if the members don't speak the consumer protocol."""
    found: dict[TopicPartition, str] = {}
    seen = 0
    try:
        for member in members:
            for topic, numbers in assigned_numbers(member.assignment):
                seen += 1 + len(numbers)
                if seen > MOST_READ:
                    return None
                found.update((TopicPartition(topic, number), member.member_id) for number in numbers)
    except OttlaError:
        return {}
    return found


def partitions_moved(before: Readers, after: Readers) -> int:
    """Return how many partitions have another reader. A partition that no member has read has not moved."""
    return sum(before.get(partition) not in (None, reader) for partition, reader in after.items())
