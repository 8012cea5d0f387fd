"""What happened to a group, and why: kept so that a rebalance can be explained. Bounded, and memory only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla_core.consumer_protocol import decode_assignment
from ottla_core.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.members import Member

KEPT: Final = 200
"""Events of a group."""


class Kind(Enum):
    JOINED = "joined"
    LEFT = "left"
    EVICTED = "evicted"
    REPLACED = "replaced"
    REBALANCE_BEGAN = "rebalance-began"
    GENERATION = "generation"
    ASSIGNED = "assigned"
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


@dataclass(frozen=True, slots=True)
class Happened:
    """An effect: what one decision has brought about, in this order, reported once it can't be undone."""

    events: tuple[HistoryEvent, ...]


Readers = Mapping[TopicPartition, str]
"""The member id that reads each partition."""


def readers(members: Iterable[Member]) -> Readers:
    """By the assignment of each member; empty where the members don't speak the consumer protocol."""
    try:
        return {p: member.member_id for member in members for p in decode_assignment(member.assignment).partitions}
    except OttlaError:
        return {}


def partitions_moved(before: Readers, after: Readers) -> int:
    """How many partitions have another reader; a partition that no member has read has not moved."""
    return sum(before.get(partition) not in (None, reader) for partition, reader in after.items())
