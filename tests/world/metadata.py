"""The world reads the cluster's metadata as etcd commits them, so what it sees is never out of date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.world.etcd import Etcd
from tests.world.telling import state_of

from ottla_core.cluster.codec import decode
from ottla_core.cluster.image import Broker, Controller, Partition
from ottla_core.cluster.keys import parse_key
from ottla_core.model import PartitionId, TopicId

OnChange = Callable[[Partition | None, Partition], None]
OnConfigs = Callable[[Mapping[str, str]], None]


class Metadata:
    """This has the metadata of the cluster `name` as of now. `note` gets a line for each change of a partition."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self.topics: Final[dict[str, TopicId]] = {}
        """Topic ids by name."""
        self.partitions: Final[dict[PartitionId, Partition]] = {}
        self.brokers: Final[dict[int, Broker]] = {}
        """The last registration of each broker."""
        self.registered_at: Final[dict[int, float]] = {}
        """The time of each broker's last registration."""
        self.controller: Controller | None = None
        """The controller that was elected last."""
        self.registered: Final[set[int]] = set()
        """These brokers are registered."""
        self.full: Final[dict[int, float]] = {}
        """The brokers whose registration says that their disk is full, and the time when it first said so."""
        self.restorations = 0
        """The number of times that the controllers have counted that etcd was restored from a backup."""
        self._name: Final = name
        self._note: Final = note
        self._listeners: Final[dict[str, OnChange]] = {}
        self._of_configs: Final[dict[str, OnConfigs]] = {}

    def watch(self, etcd: Etcd) -> None:
        """Note what etcd has committed, and whatever it commits from now on."""
        memory = etcd.memory
        commit = memory._commit
        for entry in list(memory._entries.values()):
            self._on_put(entry, etcd.process.world.now)

        def noted(events: Any) -> None:
            commit(events)
            # A topic's name has to be known before its partitions are noted.
            for event in sorted(events, key=lambda each: "/partitions/" in each.entry.key):
                if event.deleted:
                    self._on_deleted(event.entry)
                else:
                    self._on_put(event.entry, etcd.process.world.now)

        memory._commit = noted

    def read_again(self, etcd: Etcd) -> None:
        """Forget the metadata, and read what etcd has after a restore."""
        self.topics.clear()
        self.partitions.clear()
        self.restorations = 0
        self.registered.clear()
        self.full.clear()
        for entry in list(etcd.memory._entries.values()):
            self._on_put(entry, etcd.process.world.now)

    def on_change(self, topic: str, listener: OnChange) -> None:
        """Call `listener(before, after)` for each change of a partition of the topic."""
        self._listeners[topic] = listener

    def on_configs(self, topic: str, listener: OnConfigs) -> None:
        """Call `listener(configs)` with the configs of the topic whenever it is created or changed."""
        self._of_configs[topic] = listener

    def _on_deleted(self, entry: Any) -> None:
        match parse_key(self._name, entry.key):
            case ("broker", number):
                self.registered.discard(number)
                self.full.pop(number, None)
            case ("partition", id_):
                self.partitions.pop(id_, None)

    def _on_put(self, entry: Any, now: float) -> None:
        match key := parse_key(self._name, entry.key):
            case ("broker", number):
                former, registration = self.brokers.get(number), decode(key, entry)
                self.brokers[number] = registration
                if former is None or former.epoch != registration.epoch:
                    self.registered_at[number] = now
                self.registered.add(number)
                if registration.read_only:
                    self.full.setdefault(number, now)
                else:
                    self.full.pop(number, None)
            case ("controller",):
                self.controller = decode(key, entry)
            case ("topic", name):
                topic = decode(key, entry)
                self.topics[name] = topic.id
                if name in self._of_configs:
                    self._of_configs[name](topic.configs)
            case ("partition", id_):
                before, after = self.partitions.get(id_), decode(key, entry)
                self.partitions[id_] = after
                self._note(state_of(self.name_of(str(id_)), after))
                for name, listener in self._listeners.items():
                    if self.topics.get(name) == id_.topic_id:
                        listener(before, after)
            case ("restored",):
                self.restorations = decode(key, entry).count

    def name_of(self, id_: str) -> str:
        """Return a partition's id, which is also the name of its directory, with the topic's name in it."""
        topic, _, number = id_.partition("-")
        name = next((name for name, each in self.topics.items() if each.hex() == topic), topic)
        return f"{name}-{number}"

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
