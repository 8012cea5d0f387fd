"""Which partitions a consumer reads, and where in them: looked up at the first use, and kept as the topics grow."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

from ottla.client.cluster import Cluster
from ottla.client.list_offsets import list_offsets_or_end
from ottla.client.metadata_updater import MetadataKeeper
from ottla.consumer.fetcher import Fetcher, closed_error
from ottla.consumer.start_offsets import ReadingPlan
from ottla.errors import config_error
from ottla.machines.metadata import ClusterView
from ottla.machines.position import Position
from ottla.machines.subscription import Subscription
from ottla_core.model import EARLIEST_TIMESTAMP, TopicPartition

logger = logging.getLogger("ottla.consumer")


class Assignment:
    """Everything here may wait for the cluster, up to `timeout` seconds, and raises where nobody answers."""

    def __init__(
        self,
        plan: ReadingPlan,
        subscription: Subscription,
        fetcher: Fetcher,
        cluster: Cluster,
        *,
        name: str,
        max_age: float,
        timeout: float,
    ) -> None:
        self._plan: Final = plan
        self._subscription: Final = subscription
        self._fetcher: Final = fetcher
        self._cluster: Final = cluster
        self._name: Final = name
        self._max_age: Final = max_age
        self._timeout: Final = timeout
        self._keeper: MetadataKeeper | None = None
        self._first_use: Final = Lock()
        self._assigned = False

    def ensure(self) -> None:
        """Look the topics up and take their partitions, unless that was done."""
        if self._assigned:
            return
        with self._first_use:
            if not self._assigned:
                self._assign(self._start_keeper())
                self._assigned = True

    def positions(self) -> Mapping[TopicPartition, Position]:
        """All partitions' positions."""
        self.ensure()
        with self._fetcher.lock:
            return dict(self._subscription.positions)

    def of(self, partitions: Sequence[tuple[str, int]]) -> list[Position]:
        """The positions of `partitions`, of all where none is named. Raises ConfigError for one that is not read."""
        positions = self.positions()
        if not partitions:
            return list(positions.values())
        for partition in partitions:
            if partition not in positions:
                raise config_error(
                    f"{TopicPartition(*partition)} is not assigned", hint="assignment() says which partitions are"
                )
        return [positions[TopicPartition(*partition)] for partition in partitions]

    def resolve(self) -> None:
        """Look up where those positions are that are only known as a time or an end."""
        resolve(self._subscription, self._fetcher, self._cluster, self._timeout)

    def locate(self) -> None:
        """Whatever is to be looked up before every position is known."""
        self.resolve()

    def wake(self) -> None:
        """Let whoever waits for the topics look whether that is still wanted."""
        if self._keeper is not None:
            self._keeper.nudge()

    def close(self) -> None:
        """Stop following the topics."""
        if self._keeper is not None:
            self._keeper.close()

    def _start_keeper(self) -> MetadataKeeper:
        if self._fetcher.closed:
            raise closed_error()
        if self._keeper is None:
            self._keeper = MetadataKeeper(
                self._cluster,
                name=self._name,
                max_age=self._max_age,
                timeout=self._timeout,
                on_change=self._on_metadata,
            )
        return self._keeper

    def _assign(self, keeper: MetadataKeeper) -> None:
        views = keeper.until_known(self._plan.topics, self._timeout, check=self._fetcher.check_wanted)
        places = self._plan.places(views, self._cluster, self._timeout)
        with self._fetcher.lock:
            for place in places:
                position = self._subscription.assign(place.partition)
                position.stop = place.stop
                if place.offset is not None:
                    self._subscription.seek(position, place.offset)
                else:
                    self._subscription.seek_to_time(position, place.timestamp)
        self._fetcher.start(keeper)

    def _on_metadata(self, view: ClusterView) -> None:
        with self._fetcher.lock:
            if self._plan.follows_growth and self._assigned:
                self._take_new(view)
        self._fetcher.on_metadata(view)

    def _take_new(self, view: ClusterView) -> None:
        for name in self._plan.topics:
            topic = view.topics.get(name)
            for number in range(0 if topic is None else len(topic.partitions)):
                partition = TopicPartition(name, number)
                if partition not in self._subscription.positions:
                    logger.info("%s is new; reading it from its beginning", partition)
                    self._subscription.assign(partition, EARLIEST_TIMESTAMP)


def resolve(subscription: Subscription, fetcher: Fetcher, cluster: Cluster, timeout: float) -> None:
    """Look up where those positions are that are only known as a time or an end."""
    with fetcher.lock:
        unknown = {position: position.version for position in subscription.unresolved()}
    if not unknown:
        return
    wanted = {position.partition: position.start for position in unknown if position.start is not None}
    offsets = list_offsets_or_end(cluster, wanted, timeout=timeout)
    with fetcher.lock:
        for position, version in unknown.items():
            if position.version == version:
                subscription.seek(position, offsets[position.partition])
