"""Reads partitions as whole batches, without opening them: for mirrors.

The caller chooses the partitions and start offsets, at any time, by `assign` and `unassign`. Everything else works as
in a consumer, by the same machines: fetch sessions, changes of leader and replica, truncation, recreated topics.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.security.security import PLAINTEXT, Security
from ottla.client.settings import bootstrap_addresses
from ottla.client.transport import Transport
from ottla.client.units import Duration, Size, seconds, size_bytes
from ottla.consumer.assignment import resolve
from ottla.consumer.context import ConsumerContext
from ottla.consumer.fetch import FetchOptions
from ottla.consumer.fetcher import Fetcher
from ottla.machines.position import FetchedData, Position
from ottla.machines.subscription import FetchLimits, SubscriptionState
from ottla_core.model import EARLIEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.records.batch import iter_headers

_METADATA_MAX_AGE_S: Final = 300.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Whole batches of one partition, in order: everything from `offset` up to `next_offset`.

    The first batch may begin before `offset`: a batch comes whole (rule 57). Control batches are included, and so are
    batches of the aborted transactions, which `aborted` lists as (producer id, first offset). `leader_epoch` is that of
    the last batch.
    """

    partition: TopicPartition
    topic_id: TopicId
    records: bytes
    aborted: tuple[tuple[int, int], ...]
    offset: int
    next_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far a partition is read: the next offset, None until it is known, and the end of committed records (the last
    stable offset), -1 before the first response."""

    offset: int | None
    end: int

    @property
    def lag(self) -> int:
        """The number of offsets between the two; -1 if it is not known."""
        return -1 if self.offset is None or self.end < 0 else max(0, self.end - self.offset)


class BatchReader:
    """Reads partitions of one cluster. Use it from one thread; any thread may call `close`.

    It returns only what lies below the last stable offset, aborted batches included. If the topic was recreated under
    its name, or the offset is out of the log, it continues from the beginning and logs this; if an unclean election
    has truncated the log, it continues from the end.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        client_id: str | None = None,
        prefetch: Size = "16MiB",
        fetch_max_bytes: Size = "4MiB",
        max_partition_fetch_bytes: Size = "1MiB",
        fetch_max_wait: Duration = 0.5,
        client_rack: str = "",
        request_timeout: Duration = 30.0,
        connect_timeout: Duration = 5.0,
        security: Security = PLAINTEXT,
        _transport: Transport | None = None,
    ) -> None:
        name = client_id or f"ottla-batch-reader-{next(_numbers)}"
        timeout_s, wait_s = seconds(request_timeout, "request_timeout"), seconds(fetch_max_wait, "fetch_max_wait")
        transport = _transport or KafkaTransport(name, security)
        self.cluster: Final = ClusterClient(
            bootstrap_addresses(bootstrap),
            transport,
            connect_timeout=seconds(connect_timeout, "connect_timeout"),
        )
        limits = FetchLimits(
            prefetch_bytes=size_bytes(prefetch, "prefetch"),
            partition_bytes=size_bytes(max_partition_fetch_bytes, "max_partition_fetch_bytes"),
            max_wait_s=wait_s,
        )
        self._subscription: Final = SubscriptionState(limits, "earliest")
        options = FetchOptions(1, size_bytes(fetch_max_bytes, "fetch_max_bytes"), wait_s, client_rack)
        self._fetcher: Final = Fetcher(self._subscription, self.cluster, options, timeout_s)
        self._context: Final = ConsumerContext(
            name, self._subscription, self._fetcher, self.cluster, timeout_s, _METADATA_MAX_AGE_S
        )
        self._updater: Final = self._context.start_updater(self._fetcher.on_metadata)
        self._fetcher.start(self._updater)

    def assign(
        self,
        partition: TopicPartition,
        offset: int | None = None,
        *,
        leader_epoch: int = -1,
        topic_id: TopicId | None = None,
    ) -> None:
        """Read `partition` from `offset` on, or from its beginning for None, even if it is being read already.

        `topic_id` is the id of the topic in which `offset` is valid, and `leader_epoch` the epoch of the record before
        it, if known.
        """
        with self._fetcher.lock:
            position = self._subscription.assign(partition, EARLIEST_TIMESTAMP)
            if offset is None:
                self._subscription.seek_to_time(position, EARLIEST_TIMESTAMP)
            else:
                self._subscription.seek(position, offset, leader_epoch)
                position.topic_id = topic_id
        self._updater.follow([partition.topic])
        self._updater.refresh()

    def unassign(self, partition: TopicPartition) -> None:
        """Stop reading the partition."""
        with self._fetcher.lock:
            self._subscription.unassign(partition)
            forgotten = all(other.topic != partition.topic for other in self._subscription.positions)
        if forgotten:
            self._updater.forget(partition.topic)

    def pause(self, partition: TopicPartition) -> None:
        """Return and fetch nothing of a partition until `resume`. What is fetched already is kept."""
        with self._fetcher.lock:
            if (position := self._subscription.positions.get(partition)) is not None:
                self._subscription.pause(position)

    def resume(self, partition: TopicPartition) -> None:
        """Go on with a paused partition."""
        with self._fetcher.lock:
            if (position := self._subscription.positions.get(partition)) is not None:
                self._subscription.resume(position)

    def positions(self) -> Mapping[TopicPartition, ReadPosition]:
        """Return the positions of all assigned partitions."""
        with self._fetcher.lock:
            positions = self._subscription.positions.items()
            return {partition: ReadPosition(at.offset, at.high_watermark) for partition, at in positions}

    def poll(self, timeout: Duration = 1.0) -> FetchedBatches | None:
        """Return the next batches of one partition; None if none come within `timeout` seconds, or after `close`.

        The partition's position moves behind them. Raises a broker's error that is not retriable. If it is `about` one
        partition, the others are not affected.
        """
        deadline_at = self._fetcher.clock.monotonic() + seconds(timeout, "timeout")
        while not self._fetcher.closed:
            self._fetcher.check_failed()
            resolve(self._context, skips_missing=True)
            left = deadline_at - self._fetcher.clock.monotonic()
            fetched = self._fetcher.take(max(0.0, left))
            if fetched is not None:
                batches = self._handed_out(fetched)
                if batches is not None:
                    return batches
            elif left <= 0:
                return None
        return None

    def close(self) -> None:
        """End every thread and connection; a waiting `poll` returns."""
        self._fetcher.close()
        self.cluster.close()

    def _handed_out(self, fetched: FetchedData) -> FetchedBatches | None:
        """Return None if the position was moved meanwhile."""
        position = fetched.position
        with self._fetcher.lock:
            self._subscription.on_read(fetched)
            if fetched.version != position.version or position.offset is None or position.topic_id is None:
                return None
            first, position.offset, position.offset_epoch = position.offset, *_end(fetched, position)
            return FetchedBatches(
                position.partition,
                position.topic_id,
                bytes(fetched.records),
                fetched.aborted,
                first,
                position.offset,
                position.offset_epoch,
            )


def _end(fetched: FetchedData, position: Position) -> tuple[int, int]:
    """Return the offset after the last batch, and that batch's leader epoch."""
    offset, epoch = position.offset or 0, position.offset_epoch
    for _, header in iter_headers(fetched.records):
        offset, epoch = max(offset, header.next_offset), header.leader_epoch
    return offset, epoch
