"""Where a consumer without a group begins and ends: the arguments are checked first, and offsets are looked up later.

An invalid argument must fail in the constructor, where the mistake is. Offsets can't be looked up there, because
brokers may be away, and a consumer that is created now may read much later. So `ReadingPlan` checks everything that
needs no broker, and `ranges` asks the brokers when reading begins.

A stop is looked up once. "The end" is the end of that moment, or a topic that is written to all the time would never be
read to its end. An offset has a meaning in one topic only, so the topic's id goes with it (I29).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ottla.client.cluster import ClusterClient
from ottla.client.list_offsets import list_offsets_or_end
from ottla.client.settings import check_topic, one_of
from ottla.client.units import timestamp_ms
from ottla.errors import ConfigError, ErrorCode, config_error
from ottla.machines.metadata import TopicView
from ottla.machines.position import StopOffset
from ottla.machines.subscription import Reset
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition

logger = logging.getLogger("ottla.consumer")

# Whether the warning of a default start was logged. Once for each process is enough.
_warned: list[str] = []


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The start of one partition (an `offset`, or a `timestamp` as in ListOffsets) and its stop.

    Both starts are None if no start is given and auto_offset_reset is "none"; then only a seek can set one.
    """

    partition: TopicPartition
    offset: int | None
    timestamp: int | None
    stop: StopOffset | None


class ReadingPlan:
    """What to read, from the arguments of a Consumer. Raises ConfigError."""

    def __init__(
        self,
        topics: Sequence[str],
        partitions: Sequence[int | tuple[str, int]] | None,
        start: Any,
        stop: Any,
        reset: Any,
    ) -> None:
        self.topics: Final = checked_topics(topics)
        self._partitions = None if partitions is None else [_partition(p, self.topics) for p in partitions]
        self._start = _start(start)
        self._stop = checked_stop(stop)
        self.reset: Final[Reset] = checked_reset(reset, self._start)
        # Without a start a consumer begins at the end, as in Kafka. To read from the end to the end can't be meant.
        bounded = stop == "end" or isinstance(stop, datetime | timedelta)
        if bounded and self._start == "committed" and reset is None:
            raise config_error(
                f"stop={stop!r} without start= reads nothing, because the consumer begins at the end",
                hint="pass start='earliest', a time or offsets",
            )

    @property
    def follows_growth(self) -> bool:
        """Whether partitions that are added later are read too."""
        return self._partitions is None and self._stop is None

    def ranges(
        self, topics: Sequence[TopicView], cluster: ClusterClient, timeout: float, *, read_committed: bool = True
    ) -> list[PartitionRange]:
        """Look up where each partition begins and stops. Raises ConfigError for one that does not exist."""
        existing = [TopicPartition(topic.name, n) for topic in topics for n in range(len(topic.partitions))]
        partitions = existing if self._partitions is None else self._partitions
        offsets = self._start if isinstance(self._start, dict) else {}
        for partition in (*partitions, *offsets):
            if partition not in existing:
                last = sum(p.topic == partition.topic for p in existing) - 1
                raise ConfigError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{partition} does not exist",
                    hint=f"{partition.topic} has partitions 0 to {last}",
                )
        now_ms = cluster.clock.wall_ms()
        stops = find_stops(self._stop, partitions, cluster, timeout, read_committed=read_committed)
        timestamp = self._timestamp(now_ms)
        return [PartitionRange(p, offsets.get(p), timestamp, stops.get(p)) for p in partitions]

    def _timestamp(self, now_ms: int) -> int | None:
        start = self._start
        if isinstance(start, datetime | timedelta):
            return timestamp_ms(start, now_ms=now_ms)
        # With reset "none" a missing start is an error at the first read. Taken for the end, it would skip records
        # silently.
        if self.reset == "none" and start not in ("earliest", "latest"):
            return None
        if start == "committed" and self.reset == "latest" and not _warned:
            _warned.append("start")
            logger.warning(
                "reading %s from the end, as Kafka consumers do if they have no committed offsets: existing records "
                "are not read (start='earliest' reads everything)",
                ", ".join(self.topics),
            )
        earliest = start == "earliest" or (start != "latest" and self.reset == "earliest")
        return EARLIEST_TIMESTAMP if earliest else LATEST_TIMESTAMP


def find_stops(
    stop: Any,
    partitions: Iterable[TopicPartition],
    cluster: ClusterClient,
    timeout: float,
    *,
    read_committed: bool,
) -> dict[TopicPartition, StopOffset]:
    """Look up where each partition stops; empty if reading does not stop at an offset."""
    if stop is None or isinstance(stop, int):
        return {}
    if isinstance(stop, Mapping):
        return {partition: StopOffset(offset) for partition, offset in stop.items()}
    at = LATEST_TIMESTAMP if stop == "end" else timestamp_ms(stop, now_ms=cluster.clock.wall_ms())
    timestamps = dict.fromkeys(partitions, at)
    ids: dict[TopicPartition, TopicId] = {}
    epochs: dict[TopicPartition, int] = {}
    offsets = list_offsets_or_end(
        cluster, timestamps, timeout=timeout, read_committed=read_committed, topic_ids=ids, epochs=epochs
    )
    return {partition: StopOffset(offset, ids[partition], epochs[partition]) for partition, offset in offsets.items()}


def checked_topics(topics: Sequence[str]) -> tuple[str, ...]:
    """Return the names of topics, each once. Raises ConfigError."""
    if not topics:
        raise config_error("no topic is given", hint="pass one: Consumer('orders', …)")
    for topic in topics:
        if not isinstance(topic, str):
            raise config_error(f"{topic!r} is not a topic name", hint="pass names: Consumer('orders', 'refunds', …)")
        check_topic(topic)
    return tuple(dict.fromkeys(topics))


def _partition(like: Any, topics: Sequence[str]) -> TopicPartition:
    match like:
        # True is an int in Python, and would be partition 1.
        case bool():
            pass
        case int(number) if len(topics) == 1 and number >= 0:
            return TopicPartition(topics[0], number)
        case (str(topic), int(number)) if topic in topics and number >= 0:
            return TopicPartition(topic, number)
    raise config_error(
        f"partitions= contains {like!r}",
        hint="pass partition numbers for a single topic, or (topic, number) pairs for several topics",
    )


def _start(start: Any) -> Any:
    if isinstance(start, Mapping):
        return _offsets(start, "start")
    if isinstance(start, datetime | timedelta):
        return start
    return one_of(start, "start", ("committed", "earliest", "latest"))


def _offsets(offsets_like: Mapping[Any, Any], name: str) -> dict[TopicPartition, int]:
    offsets = {TopicPartition(*partition): offset for partition, offset in offsets_like.items()}
    for partition, offset in offsets.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise config_error(f"{name} offset {offset!r} for {partition} is not an offset", hint="pass 0 or more")
    return offsets


def checked_stop(stop: Any) -> Any:
    """Return the checked stop. Raises ConfigError."""
    if stop is None or stop == "end" or isinstance(stop, datetime | timedelta):
        return stop
    if isinstance(stop, int) and not isinstance(stop, bool) and stop >= 0:
        return stop
    if isinstance(stop, Mapping):
        return _offsets(stop, "stop")
    hint = "use 'end', a datetime, a timedelta, a number of records or {(topic, partition): offset}"
    raise config_error(f"stop={stop!r} is not valid", hint=hint)


def checked_reset(reset: Any, start: Any) -> Reset:
    """Return where to continue from an invalid position; by default this depends on `start`. Raises ConfigError."""
    if reset is None:
        return "earliest" if start == "earliest" or isinstance(start, datetime | timedelta) else "latest"
    checked: Reset = one_of(reset, "auto_offset_reset", ("earliest", "latest", "none"))
    return checked
