"""Reading partitions as the batches that they consist of, bytes that are not opened: for mirrors.

Which partitions, and from where, is the caller's, at any time: `assign` and `unassign`. The rest is a consumer's own:
fetch sessions, other leaders and replicas, truncation, a topic that was recreated, all by the same machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.settings import bootstrap_addresses
from ottla.client.transport import Transport, grpc_transport
from ottla.client.units import Duration, Size, seconds, size_bytes
from ottla.consumer.assignment import resolve
from ottla.consumer.context import ConsumerContext
from ottla.consumer.fetcher import Fetcher, FetchOptions
from ottla.machines.position import FetchedData, Position
from ottla.machines.subscription import FetchLimits, SubscriptionState
from ottla_core.model import EARLIEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.records.batch import iter_headers

_METADATA_MAX_AGE_S: Final = 300.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Whole batches of one partition, in their order: what lies from `offset` up to `next_offset`.

    The first may begin before `offset`: a batch comes whole (rule 57). Control batches are in it, and aborted ones of
    the transactions in `aborted`, as (producer id, first offset). `leader_epoch` is the last batch's.
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
    """Where reading is in a partition: the next offset, None while it is not known yet; and the end, -1 before the
    first response: of committed records, the last stable offset."""

    offset: int | None
    end: int

    @property
    def lag(self) -> int:
        """Offsets between both; -1 where it is not known."""
        return -1 if self.offset is None or self.end < 0 else max(0, self.end - self.offset)


class BatchReader:
    """One cluster's partitions. For one thread; `close` is for any.

    Only committed data is handed out (with what was aborted in between). Of a topic that was recreated under its name,
    and where the offset is out of the log, reading goes on at the beginning and says so in the log; where an unclean
    election has truncated the log, at its end.
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
        _transport: Transport | None = None,
    ) -> None:
        name = client_id or f"ottla-batch-reader-{next(_numbers)}"
        timeout_s, wait_s = seconds(request_timeout, "request_timeout"), seconds(fetch_max_wait, "fetch_max_wait")
        self.cluster: Final = ClusterClient(
            bootstrap_addresses(bootstrap),
            _transport or grpc_transport(name),
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
        """Read `partition` from `offset` on, from its beginning for None, also where it is read already.

        `topic_id`: of the topic in which `offset` is valid, and `leader_epoch` of what lies before it, where that is
        known.
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
        """Read it no more."""
        with self._fetcher.lock:
            self._subscription.unassign(partition)
            forgotten = all(other.topic != partition.topic for other in self._subscription.positions)
        if forgotten:
            self._updater.forget(partition.topic)

    def positions(self) -> Mapping[TopicPartition, ReadPosition]:
        """Those of all partitions that are assigned."""
        with self._fetcher.lock:
            positions = self._subscription.positions.items()
            return {partition: ReadPosition(at.offset, at.high_watermark) for partition, at in positions}

    def poll(self, timeout: Duration = 1.0) -> FetchedBatches | None:
        """What one partition has next, waited for up to `timeout` seconds; None also after `close`.

        Its position is behind it then. Raises what the brokers answer and another try does not mend; other partitions
        are read on.
        """
        deadline_at = self._fetcher.clock.monotonic() + seconds(timeout, "timeout")
        while not self._fetcher.closed:
            self._fetcher.check_failed()
            resolve(self._context)
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
        """End every thread and connection; a `poll` that waits comes back."""
        self._fetcher.close()
        self.cluster.close()

    def _handed_out(self, fetched: FetchedData) -> FetchedBatches | None:
        """None where the position was moved meanwhile."""
        position = fetched.position
        with self._fetcher.lock:
            self._subscription.on_read(fetched)
            if fetched.version != position.version or position.offset is None or position.topic_id is None:
                return None
            first, position.offset, position.offset_epoch = position.offset, *_end(fetched, position)
            return FetchedBatches(
                position.partition,
                position.topic_id,
                fetched.records,
                fetched.aborted,
                first,
                position.offset,
                position.offset_epoch,
            )


def _end(fetched: FetchedData, position: Position) -> tuple[int, int]:
    """The offset after the last batch, and its leader epoch."""
    offset, epoch = position.offset or 0, position.offset_epoch
    for _, header in iter_headers(fetched.records):
        offset, epoch = max(offset, header.next_offset), header.leader_epoch
    return offset, epoch
