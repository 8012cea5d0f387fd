"""A client's view of the cluster: immutable, and replaced as a whole or corrected when a leader moves.

A view is only a hint. If it is wrong, the broker responds with NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or
UNKNOWN_TOPIC_ID, and the client requests a new view. The client ignores a leader epoch that goes backwards (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla_core.errors import ErrorCode
from ottla_core.model import NO_LEADER, PartitionId, TopicId, TopicPartition

REFRESHING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which the view may be wrong: request another before the next try."""

OVERDUE_S: Final = 1.0
"""A broker that takes longer for a request may hang, so the client queries other brokers for another leader."""
OVERDUE_PACE_S: Final = 0.5
FAILING_PACE_S: Final = 0.1
"""Seconds between these queries while a request is overdue, or while one waits for its retry."""
MISSING_PACE_S: Final = 1.0
"""The most seconds between them while a partition has no known leader: its topic may be gone for good."""


class LookupPace:
    """The pace of metadata requests during a problem. `now` is in monotonic seconds."""

    __slots__ = ("_in_vain", "_refreshed_at")

    def __init__(self) -> None:
        self._refreshed_at = float("-inf")
        self._in_vain = 0

    def due(self, now: float, pace_s: float) -> tuple[bool, float]:
        """Return whether to request metadata now, and when to check again."""
        due = self._refreshed_at + pace_s <= now
        if due:
            self._refreshed_at = now
        return due, self._refreshed_at + pace_s

    @property
    def missing_s(self) -> float:
        """The pace while a partition has no known leader. It slows down with each request that was in vain."""
        return min(MISSING_PACE_S, FAILING_PACE_S * 2.0 ** min(self._in_vain, 30))

    def note_missing(self, missing: bool, *, asked: bool) -> None:
        """Note whether a partition has no known leader, and whether metadata was requested."""
        self._in_vain = self._in_vain + asked if missing else 0


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A registered broker: its id, address, rack ("" for none) and whether it is fenced."""

    id: int
    address: str
    rack: str = ""
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition.

    `leader` is a broker's id or -1. The other fields are ids of brokers: its replicas, the in-sync ones, the offline
    ones, the eligible leaders outside the ISR, and the last known eligible leaders (KIP-966).
    """

    leader: int = NO_LEADER
    leader_epoch: int = 0
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic: its partitions by number. `error` is Kafka's code, 0 for none; with an error there are no partitions."""

    name: str
    id: TopicId
    partitions: tuple[PartitionView, ...]
    is_internal: bool = False
    error: int = 0
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a partition is served: its id for requests, the leader's address, and the epoch the client knows."""

    partition_id: PartitionId
    address: str
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as of one response to a request for metadata, with the requested topics."""

    cluster_id: str = ""
    controller: str = ""
    controller_id: int = -1
    brokers: Mapping[int, BrokerView] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    routes: Mapping[TopicPartition, Route] = field(default_factory=dict)
    names: Mapping[TopicId, str] = field(default_factory=dict)

    def name_of(self, partition_id: PartitionId) -> TopicPartition | None:
        """Return the partition's name, or None if its topic id is not (or no longer) known."""
        name = self.names.get(partition_id.topic_id)
        return None if name is None else TopicPartition(name, partition_id.partition)

    def is_offline(self, partition: TopicPartition) -> bool:
        """Return whether a partition that exists has no known leader."""
        return self.exists(partition) and partition not in self.routes

    def exists(self, partition: TopicPartition) -> bool:
        topic = self.topics.get(partition.topic)
        return topic is not None and not topic.error and 0 <= partition.partition < len(topic.partitions)

    def unknown(self, topics: Iterable[str]) -> set[str]:
        """Return those of `topics` that the brokers do not know."""
        found = ((name, self.topics.get(name)) for name in topics)
        return {name for name, t in found if t is None or t.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def undescribed(self, topics: Iterable[str]) -> list[str]:
        """Return those of `topics` that exist, but that the broker could not describe."""
        found = ((name, self.topics.get(name)) for name in topics)
        return [name for name, t in found if t is not None and t.error == ErrorCode.LEADER_NOT_AVAILABLE]

    def without_leader(self, topics: Iterable[str]) -> bool:
        """Return whether one of `topics` is missing or has a partition without a known leader."""
        return any(
            topic is None or topic.error or any(TopicPartition(topic.name, n) not in self.routes for n in range(count))
            for topic in (self.topics.get(name) for name in topics)
            for count in (0 if topic is None else len(topic.partitions),)
        )


def build_view(
    cluster_id: str, controller: tuple[int, str], brokers: Iterable[BrokerView], topics: Iterable[TopicView]
) -> ClusterView:
    """Build a view with its routes. A partition has a route if its leader is a broker in the response."""
    by_id = {broker.id: broker for broker in brokers}
    by_name = {topic.name: topic for topic in topics}
    routes = {
        TopicPartition(topic.name, number): Route(
            PartitionId(topic.id, number), by_id[partition.leader].address, partition.leader_epoch
        )
        for topic in by_name.values()
        for number, partition in enumerate(topic.partitions)
        if partition.leader in by_id
    }
    names = {topic.id: name for name, topic in by_name.items() if not topic.error}
    return ClusterView(cluster_id, controller[1], controller[0], by_id, by_name, routes, names)


def merge(old: ClusterView, new: ClusterView) -> ClusterView:
    """Return `new`, except where `old` is newer: the broker may have responded from an older image (KIP-320).

    A partition keeps its old leader if its epoch in `new` is older. A topic that the broker can't describe stays as it
    was known.
    """
    undescribed = [old.topics[name] for name in new.undescribed(old.topics) if not old.topics[name].error]
    if undescribed:
        topics = {**new.topics, **{topic.name: topic for topic in undescribed}}
        new = replace(new, topics=topics, names={**new.names, **{topic.id: topic.name for topic in undescribed}})
    kept = {topic.name for topic in undescribed}
    newer = {name: at for name, at in old.routes.items() if name.topic in kept or _is_older(new, name, at)}
    return replace(new, routes={**new.routes, **newer}) if newer else new


def _is_older(view: ClusterView, name: TopicPartition, route: Route) -> bool:
    """Return whether `view` has an older state of the partition than `route`."""
    topic = view.topics.get(name.topic)
    if topic is None or topic.id != route.partition_id.topic_id or name.partition >= len(topic.partitions):
        return False
    return topic.partitions[name.partition].leader_epoch < route.leader_epoch


def with_leaders(view: ClusterView, leaders: Iterable[tuple[PartitionId, str, int]]) -> ClusterView:
    """Return the view after a broker named leaders of partitions (KIP-951); the same view if it knew them already."""
    moved: dict[TopicPartition, Route] = {}
    for partition_id, address, leader_epoch in leaders:
        name = view.name_of(partition_id)
        route = None if name is None else view.routes.get(name)
        if name is not None and address and (route is None or leader_epoch > route.leader_epoch):
            moved[name] = Route(partition_id, address, leader_epoch)
    return replace(view, routes={**view.routes, **moved}) if moved else view
