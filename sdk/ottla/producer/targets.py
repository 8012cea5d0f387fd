"""The topics that a producer sends to: adapted as their metadata changes, and dropped when nothing is sent to them."""

from __future__ import annotations

from threading import RLock
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.metadata_updater import MetadataUpdater
from ottla.client.settings import check_topic
from ottla.errors import config_error
from ottla.machines.accumulator import Accumulator
from ottla.machines.metadata import ClusterView, TopicView
from ottla.producer.options import ProducerOptions
from ottla.producer.sender import Sender
from ottla.producer.target import Target
from ottla_core.model import TopicPartition


class Targets:
    """`by_topic` is changed with the producer's lock held, and read without it."""

    def __init__(
        self, options: ProducerOptions, client_id: str, cluster: ClusterClient, accumulator: Accumulator, sender: Sender
    ) -> None:
        self.by_topic: Final[dict[str, Target]] = {}
        self._options: Final = options
        self._cluster: Final = cluster
        self._clock: Final = cluster.clock
        self._accumulator: Final = accumulator
        self._sender: Final = sender
        self._lock: Final[RLock] = sender.lock
        self.updater: Final = MetadataUpdater(
            cluster,
            name=client_id,
            max_age=options.metadata_max_age_s,
            timeout=options.request_timeout_s,
            on_change=self._on_metadata,
        )

    def find(self, topic: str | None) -> Target:
        """Wait for the topic's metadata, and return its target. Raises UnknownTopicError, ConfigError, ConnectError."""
        if topic is None:
            raise config_error("no topic to send to", hint="pass topic= to send() or to the Producer")
        target = self.by_topic.get(topic)
        if target is None:
            check_topic(topic)
            (view,) = self.updater.until_known([topic], self._options.max_block_s)
            target = self._update(view)
        return target

    def retain(self, target: Target) -> None:
        """Keep a target that is used again: if it was dropped as idle, follow its topic again. The lock is held."""
        if target.topic not in self.by_topic:
            self.by_topic[target.topic] = target
            self.updater.follow([target.topic])

    def refresh(self, topic: str) -> None:
        """Ask a broker now, because the known metadata of the topic may be minutes old."""
        view = self._cluster.fetch_metadata([topic], timeout=self._options.max_block_s).topics.get(topic)
        if view is not None and not view.error:
            self._update(view)
            self.updater.follow([topic])  # the topic or some of its partitions may be new to this producer

    def _on_metadata(self, view: ClusterView) -> None:
        for name in list(self.by_topic):
            topic = view.topics.get(name)
            if topic is not None and not topic.error:
                self._update(topic)
        self._forget_idle()
        self._sender.on_metadata(view)

    def _forget_idle(self) -> None:
        """Forget idle topics: a producer that uses one topic per customer must not keep all of them for ever."""
        idle_since = self._clock.monotonic() - self._options.metadata_max_idle_s
        with self._lock:
            for target in [target for target in self.by_topic.values() if target.is_idle(idle_since)]:
                del self.by_topic[target.topic]
                self.updater.forget(target.topic)
                for queue in target.queues:
                    self._accumulator.forget(queue)

    def _update(self, view: TopicView) -> Target:
        """Make or adapt the topic's queues."""
        partitions = [TopicPartition(view.name, number) for number in range(len(view.partitions))]
        routes = self.updater.view.routes
        led = tuple(partition.partition for partition in partitions if partition in routes)
        with self._lock:
            target = self.by_topic.get(view.name)
            if target is None or len(target.queues) != len(partitions):
                queues = [self._accumulator.queue(partition) for partition in partitions]
                now = self._clock.monotonic()
                target = self.by_topic[view.name] = Target(view.name, queues, self._options.partitioner, now)
            target.on_metadata(led)
        return target
