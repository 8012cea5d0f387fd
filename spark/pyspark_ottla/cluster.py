"""Lookups of planning: which partitions exist, where they begin and end, and how large their records are.

Brokers may be away for a while. Every lookup is tried again until `fetchOffset.numRetries` tries have failed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from ottla.connect import (
    UNKNOWN_TOPIC_GRACE_S,
    ClusterClient,
    KafkaTransport,
    LogDirInfo,
    TopicView,
    bootstrap_addresses,
    described_log_dirs,
    epoch_ends,
    list_offsets,
    list_offsets_or_end,
)
from ottla.errors import (
    AuthorizationError,
    ConfigError,
    ErrorCode,
    OttlaError,
    RetriableError,
    UnknownTopicError,
    error_from_code,
)
from ottla_core.model import EARLIEST_LOCAL_TIMESTAMP, TopicPartition
from pyspark_ottla.machines.decisions import TOPIC as DECISIONS_TOPIC
from pyspark_ottla.machines.offsets import EARLIEST, LATEST, Bound, Epochs, Offsets, TopicIds, differing
from pyspark_ottla.options import ConsumerStrategy, ReadOptions

T = TypeVar("T")

_TRY_S: Final = 30.0
_LOOK_S: Final = 1.0
"""The time limit for lookups that are only reported."""

_UNKNOWN_PAUSE_S: Final = 0.2


class SourcePartitions:
    """The partitions that a query reads, as the brokers know them now. For one thread at a time."""

    def __init__(self, options: ReadOptions) -> None:
        self._options: Final = options
        self.ids: TopicIds = {}
        """The ids of the topics that `existing` found last."""
        self.epochs: Final[dict[TopicPartition, int]] = {}
        """The epochs of the leaders that `latest` has asked last."""
        transport = KafkaTransport(options.client_id, options.access.security())
        self._cluster: Final = ClusterClient(bootstrap_addresses(options.access.bootstrap), transport)

    def existing(
        self, *, skip_missing: bool = False, known: Iterable[TopicPartition] = (), ids: TopicIds | None = None
    ) -> list[TopicPartition]:
        """Return all existing partitions, in order. Raises UnknownTopicError, and ConfigError for an assigned partition
        that is missing.

        With `skip_missing`, topics that do not exist have no partitions. The partitions in `known` did exist, in topics
        with these `ids`. If some of them are missing, or a topic has another id, it asks for a while until that is
        sure, and raises nothing: a broker may lag.
        """
        known, ids = frozenset(known), ids or {}
        until = time.monotonic() + UNKNOWN_TOPIC_GRACE_S
        while True:
            existing = self._existing(skip_missing, {partition.topic for partition in known})
            if (known.issubset(existing) and not differing(ids, self.ids)) or time.monotonic() > until:
                return existing
            time.sleep(_UNKNOWN_PAUSE_S)

    def _existing(self, skip_missing: bool, known_topics: Set[str]) -> list[TopicPartition]:
        strategy = self._options.strategy
        topics = self._tried(lambda: self._topics(strategy, skip_missing, known_topics))
        self.ids = {name: str(UUID(bytes=topic.id)) for name, topic in topics.items()}
        if strategy.partitions:
            for partition in strategy.partitions:
                if partition.topic not in topics:
                    continue
                count = len(topics[partition.topic].partitions)
                if partition.partition >= count:
                    raise ConfigError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"{partition} does not exist",
                        hint=f"{partition.topic} has partitions 0 to {count - 1}",
                    )
            return [partition for partition in strategy.partitions if partition.topic in topics]
        return sorted(
            TopicPartition(name, number) for name, topic in topics.items() for number in range(len(topic.partitions))
        )

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each log begins."""
        return self._at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition], read: Offsets | None = None) -> Offsets:
        """Return where each log ends for its readers. That is no earlier than what was `read` of it, unless the log is
        shorter.

        What was read may lie behind an open transaction, because of another isolation level, or an option. A new leader
        may be behind what was read for a moment. Then it is looked up again.
        """
        timestamps = dict.fromkeys(partitions, LATEST)
        for left in reversed(range(self._options.fetch_offset_retries + 1)):
            found = self._at(timestamps, epochs=self.epochs)
            behind = {p: at for p, at in (read or {}).items() if found.get(p, at) < at}
            ends = self._at(dict.fromkeys(behind, LATEST), epochs=self.epochs, read_committed=False)
            found |= {p: min(ends[p], at) for p, at in behind.items()}
            if not left or all(found[p] == at for p, at in behind.items()):
                break
            time.sleep(self._options.fetch_offset_interval_s)
        return found

    def truncated(self, read: Offsets, epochs: Epochs) -> Offsets:
        """Return where logs were truncated that had reached the offsets `read` in these epochs. `latest` comes first.

        While a partition has the same leader epoch, its log is not truncated, and no broker is asked.
        """
        asked = {p: epoch for p, epoch in epochs.items() if p in read and epoch < self.epochs.get(p, epoch)}
        if not asked:
            return {}
        ends = self._tried(lambda: epoch_ends(self._cluster, asked, timeout=_TRY_S))
        return {partition: end for partition, end in ends.items() if end < read[partition]}

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each log ends, with its open transactions."""
        return self._at(dict.fromkeys(partitions, LATEST), read_committed=False)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each log ends with its open transactions. Return none if these are read, or if it can't be known
        now."""
        if self._options.client.get("isolation.level") == "read_uncommitted":
            return {}
        try:
            return list_offsets_or_end(self._cluster, dict.fromkeys(partitions, LATEST), timeout=_LOOK_S)
        except OttlaError:
            return {}

    def at(self, bound: Bound, partitions: Iterable[TopicPartition], which: str) -> Offsets:
        """Return the offset that `bound` means for each partition. `which` is the beginning of its options' names.

        Raises ConfigError if it names more or fewer partitions than these, and for a time after the last record.
        """
        expected = sorted(partitions)
        if bound.named and bound.named != set(expected):
            partition = min(bound.named.symmetric_difference(expected))
            reason = "is not among the partitions that the query reads" if partition in bound.named else "is missing"
            name = f"{which}OffsetsByTimestamp" if bound.timestamps_ms else f"{which}Offsets"
            raise ConfigError(
                ErrorCode.INVALID_CONFIG,
                f"{name}: {partition} {reason}",
                hint=f"name exactly these partitions: {_names(expected)}",
            )
        timestamps = {p: at for p in expected if (at := bound.timestamp_of(p)) is not None}
        found = {p: bound.offsets[p] for p in expected if p not in timestamps}
        if bound.or_latest or not any(at >= 0 for at in timestamps.values()):
            return {**found, **self._at(timestamps)}
        for partition, offset in self._tried(lambda: list_offsets(self._cluster, timestamps, timeout=_TRY_S)).items():
            if offset is None:
                raise ConfigError(
                    ErrorCode.INVALID_CONFIG,
                    f"{partition} has no records at or after the timestamp {timestamps[partition]} ms",
                    hint=f"use an earlier timestamp, or set {which}OffsetsByTimestampStrategy to latest",
                )
            found[partition] = offset.offset
        return found

    def record_bytes(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, float]:
        """Return the average size on disk of a record of each partition. Partitions without records on a broker's disk
        are left out. Raises AuthorizationError."""
        # Tiered records count neither in a log's size nor here.
        first, last = self._at(dict.fromkeys(partitions, EARLIEST_LOCAL_TIMESTAMP)), self.latest(partitions)
        sizes: dict[TopicPartition, int] = {}
        for broker in self._cluster.view.brokers.values():
            for directory in self._tried(partial(self._log_dirs, broker.address, sorted(last))):
                for partition, size_bytes in directory.replica_bytes.items():
                    sizes[partition] = max(size_bytes, sizes.get(partition, 0))
        return {p: sizes[p] / (last[p] - first[p]) for p in last if p in sizes and last[p] > first[p]}

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _log_dirs(self, address: str, partitions: Iterable[TopicPartition]) -> tuple[LogDirInfo, ...]:
        try:
            return self._cluster.exchange(address, described_log_dirs(partitions), timeout=_TRY_S)
        except AuthorizationError as error:
            raise AuthorizationError(
                error.code,
                f"{address} does not tell the sizes of logs: {error.message}",
                hint="allow the user to DESCRIBE the cluster, or use maxOffsetsPerTrigger for maxBytesPerTrigger",
            ) from error

    def _at(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        read_committed: bool = True,
        epochs: dict[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, int]:
        if not timestamps:
            return {}
        read_committed = read_committed and self._options.client.get("isolation.level") != "read_uncommitted"
        return self._tried(  # no further than its tasks read, which leave open transactions alone
            lambda: list_offsets_or_end(
                self._cluster, timestamps, timeout=_TRY_S, read_committed=read_committed, epochs=epochs
            )
        )

    def _topics(self, strategy: ConsumerStrategy, skip_missing: bool, known: Set[str]) -> Mapping[str, TopicView]:
        if strategy.pattern:
            topics = self._cluster.fetch_metadata(all_topics=True, timeout=_TRY_S).topics
            pattern = re.compile(strategy.pattern)
            internal = {DECISIONS_TOPIC, *(name for name, topic in topics.items() if topic.is_internal)}
            return {name: topic for name, topic in topics.items() if pattern.search(name) and name not in internal}
        names = strategy.topics or tuple(sorted({p.topic for p in strategy.partitions}))
        topics = self._cluster.fetch_metadata(names, timeout=_TRY_S).topics
        found = {}
        for name in names:
            topic = topics.get(name)
            if topic is not None and not topic.error:
                found[name] = topic
            elif topic is not None and topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error_from_code(topic.error, topic.error_message)
            elif not skip_missing and name not in known:
                raise self._cluster.unknown_topic(name)
        return found

    def _tried(self, lookup: Callable[[], T]) -> T:
        left, unknown_until = self._options.fetch_offset_retries, time.monotonic() + UNKNOWN_TOPIC_GRACE_S
        while True:
            try:
                return lookup()
            except UnknownTopicError:
                if time.monotonic() > unknown_until:
                    raise
                time.sleep(_UNKNOWN_PAUSE_S)
            except RetriableError:
                if not left:
                    raise
                left -= 1
                time.sleep(self._options.fetch_offset_interval_s)


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions[:10])) + (", …" if len(partitions) > 10 else "")
