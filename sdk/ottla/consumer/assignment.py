"""The partitions that a consumer reads and its positions in them: looked up at first use, extended as topics grow."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

from ottla.client.list_offsets import list_offsets_or_end
from ottla.client.metadata_updater import MetadataUpdater
from ottla.consumer.context import ConsumerContext
from ottla.consumer.fetcher import closed_error
from ottla.consumer.start_offsets import ReadingPlan
from ottla.errors import config_error
from ottla.machines.failures import no_position
from ottla.machines.metadata import ClusterView
from ottla.machines.position import Position
from ottla_core.model import EARLIEST_TIMESTAMP, TopicPartition

_LOCATE_AGAIN_S: Final = 0.5
"""How long to wait before the position of a partition without a leader is looked up again."""

logger = logging.getLogger("ottla.consumer")


class Assignment:
    """Every method may wait for the cluster, up to `timeout` seconds, and raises if no broker answers."""

    def __init__(self, plan: ReadingPlan, context: ConsumerContext) -> None:
        self._plan: Final = plan
        self._context: Final = context
        self._subscription: Final = context.subscription
        self._fetcher: Final = context.fetcher
        self._cluster: Final = context.cluster
        self._timeout: Final = context.request_timeout_s
        self._updater: MetadataUpdater | None = None
        self._first_use: Final = Lock()
        self._assigned = False

    def ensure(self) -> None:
        """Look up the topics and assign their partitions, unless that is done already."""
        if self._assigned:
            return
        with self._first_use:
            if not self._assigned:
                self._assign(self._start_updater())
                self._assigned = True

    def positions(self) -> Mapping[TopicPartition, Position]:
        """Return the positions of all partitions."""
        self.ensure()
        with self._fetcher.lock:
            return dict(self._subscription.positions)

    def of(self, partitions: Sequence[tuple[str, int]]) -> list[Position]:
        """Return the positions of `partitions`, or of all for none. Raises ConfigError for one that is not assigned."""
        positions = self.positions()
        if not partitions:
            return list(positions.values())
        for partition in partitions:
            if partition not in positions:
                raise config_error(
                    f"{TopicPartition(*partition)} is not assigned", hint="assignment() returns the assigned partitions"
                )
        return [positions[TopicPartition(*partition)] for partition in partitions]

    def resolve(self) -> None:
        """Look up the offsets of positions that are known only as a time or an end."""
        resolve(self._context)

    def check_starts(self) -> None:
        """Raise OffsetOutOfRangeError if a partition has no start offset."""
        with self._fetcher.lock:
            nowhere = [p.partition for p in self._subscription.unlocated if p.offset is None and p.start is None]
        if nowhere:
            raise no_position(nowhere[0])

    def locate(self) -> None:
        """Look up every position that is not known yet, and wait for leaders."""
        resolve(self._context, wait=True)

    def wake(self) -> None:
        """Wake a thread that waits for the topics, so that it checks whether to go on."""
        if self._updater is not None:
            self._updater.nudge()

    def _start_updater(self) -> MetadataUpdater:
        if self._fetcher.closed:
            raise closed_error()
        if self._updater is None:
            self._updater = self._context.start_updater(self._on_metadata)
        return self._updater

    def _assign(self, updater: MetadataUpdater) -> None:
        views = updater.until_known(self._plan.topics, self._timeout, check=self._fetcher.check_open)
        ranges = self._plan.ranges(views, self._cluster, self._timeout, read_committed=self._fetcher.read_committed)
        with self._fetcher.lock:
            for partition_range in ranges:
                position = self._subscription.assign(partition_range.partition)
                position.stop = partition_range.stop
                if partition_range.offset is not None:
                    self._subscription.seek(position, partition_range.offset)
                else:
                    self._subscription.seek_to_time(position, partition_range.timestamp)
        self._fetcher.start(updater)

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
                    logger.info("%s is new; reading it from the beginning", partition)
                    self._subscription.assign(partition, EARLIEST_TIMESTAMP)


def resolve(context: ConsumerContext, *, wait: bool = False, skips_missing: bool = False) -> None:
    """Look up the offsets of positions that are known only as a time or an end.

    Without `wait` the positions of partitions without a leader stay unknown for now, and the other partitions are read.
    With `skips_missing` this holds for partitions that do not exist, too.
    """
    subscription, fetcher = context.subscription, context.fetcher
    with fetcher.lock:
        now = math.inf if wait else fetcher.clock.monotonic()
        versions = {position: position.version for position in subscription.unresolved(now)}
    if not versions:
        return
    timestamps = {position.partition: position.start for position in versions if position.start is not None}
    offline: set[TopicPartition] = set()
    offsets = list_offsets_or_end(
        context.cluster,
        timestamps,
        timeout=context.request_timeout_s,
        read_committed=fetcher.read_committed,
        offline=None if wait else offline,
        skips_missing=skips_missing,
    )
    with fetcher.lock:
        for position, version in versions.items():
            if position.version != version:
                continue
            if position.partition in offline:
                position.locate_at = fetcher.clock.monotonic() + _LOCATE_AGAIN_S
            else:
                subscription.seek(position, offsets[position.partition])
