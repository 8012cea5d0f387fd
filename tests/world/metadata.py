"""The world reads the cluster's metadata as etcd commits them, so what it sees is never out of date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.world.store import Etcd

from ottla_core.cluster.codec import decode
from ottla_core.cluster.image import Partition
from ottla_core.cluster.keys import parse_key
from ottla_core.model import PartitionId, TopicId

OnChange = Callable[[Partition | None, Partition], None]


class Metadata:
    """The topics and partitions as they are now. `name` is their cluster's."""

    def __init__(self, name: str) -> None:
        self.topics: Final[dict[str, TopicId]] = {}
        """Topic ids by name."""
        self.partitions: Final[dict[PartitionId, Partition]] = {}
        self._name: Final = name
        self._listeners: Final[dict[str, OnChange]] = {}

    def watch(self, etcd: Etcd) -> None:
        """Note what etcd has, and whatever it commits from now on."""
        memory = etcd.memory
        commit = memory._commit
        for entry in memory._entries.values():
            if (key := parse_key(self._name, entry.key)) is not None:
                self._on_put(key, entry)

        def noted(events: Any) -> None:
            commit(events)
            for event in events:
                key = parse_key(self._name, event.entry.key)
                if key is not None and not event.deleted:
                    self._on_put(key, event.entry)

        memory._commit = noted

    def on_change(self, topic: str, listener: OnChange) -> None:
        """Call `listener(before, after)` for each change of a partition of the topic."""
        self._listeners[topic] = listener

    def _on_put(self, key: Any, entry: Any) -> None:
        match key:
            case ("topic", name):
                self.topics[name] = decode(key, entry).id
            case ("partition", id_):
                before, after = self.partitions.get(id_), decode(key, entry)
                self.partitions[id_] = after
                for name, listener in self._listeners.items():
                    if self.topics.get(name) == id_.topic_id:
                        listener(before, after)

    def of(self, topic: str, number: int = 0) -> Partition | None:
        id_ = self.topics.get(topic)
        return None if id_ is None else self.partitions.get(PartitionId(id_, number))

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        id_ = self.topics.get(topic)
        return sum(partition.topic_id == id_ for partition in self.partitions)

    def leader(self, topic: str, number: int = 0) -> int:
        """Return the id of the leader, or -1 for none."""
        partition = self.of(topic, number)
        return -1 if partition is None else partition.leader

    def is_whole(self) -> bool:
        """Return whether each partition has a leader, and all of its replicas in the ISR."""
        return bool(self.partitions) and all(
            each.leader >= 0 and len(each.isr) == len(each.replicas) for each in self.partitions.values()
        )

    def has_in_sync(self, broker: str, *, everywhere: bool) -> bool:
        """Return whether a broker is in the ISR of any of its partitions, or with `everywhere` of all."""
        number = int(broker.rpartition("-")[2])
        found = (number in each.isr for each in self.partitions.values() if number in each.replicas)
        return all(found) if everywhere else any(found)
