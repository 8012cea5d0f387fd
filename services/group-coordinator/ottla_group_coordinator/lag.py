"""Measures how far committed offsets are behind, as the partitions' leaders know: in records, and in time.

The time is that since which the oldest unread record has waited. Its timestamp is in the log, so the leader is asked
for the batch that holds the committed offset. This is exact, and costs one batch per partition that is behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER, PartitionId, TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_core.records.reader import read_records
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.peers import Peers
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker

NOTHING_COMMITTED: Final = -1

_ASK_S: Final = 10.0
_PARTITIONS_A_CALL: Final = 1_000
"""How many partitions of a leader one call asks about: more would be built, and read, in one long turn of the loop."""
_FIRST_BATCH: Final = 1  # bytes: the first batch always comes whole (KIP-74)


@dataclass(frozen=True, slots=True)
class Lag:
    """`records` counts the offsets from the committed one to the end. It is NOTHING_COMMITTED if none is committed."""

    committed: int
    log_start_offset: int = -1
    log_end_offset: int = -1
    oldest_unread_ms: int | None = None
    error: OttlaError | None = None

    @property
    def next_unread(self) -> int:
        return max(self.committed, self.log_start_offset)

    @property
    def records(self) -> int:
        if self.committed == NOTHING_COMMITTED or self.error is not None:
            return NOTHING_COMMITTED
        return max(0, self.log_end_offset - self.next_unread)


Lags = dict[TopicPartition, Lag]


class LagReader:
    """A component: it connects to a leader at the first request."""

    def __init__(self, image: Callable[[], ClusterImage], tls: InternalTls | None = None) -> None:
        self._image: Final = image
        self._peers: Final = Peers(client_id="group-coordinator", tls=tls)

    async def start(self) -> None:
        """Do nothing: the first request connects."""

    async def stop(self) -> None:
        await self._peers.close()

    async def lags(self, committed: Mapping[TopicPartition, int]) -> Lags:
        """Return the lag of each partition, as its leader knew it at one moment, or an error if the leader can't
        tell."""
        found: Lags = {}
        by_leader: dict[str, dict[PartitionId, TopicPartition]] = {}
        time_slice = Slice()
        for partition, offset in committed.items():
            await time_slice.rest()
            try:
                address, partition_id = self._leader(partition)
            except OttlaError as error:
                found[partition] = Lag(offset, error=error)
            else:
                by_leader.setdefault(address, {})[partition_id] = partition
        for lags in await asyncio.gather(*(self._of_leader(a, ids, committed) for a, ids in by_leader.items())):
            found |= lags
        return found

    def _leader(self, partition: TopicPartition) -> tuple[str, PartitionId]:
        image = self._image()
        topic = image.topics.get(partition.topic)
        if topic is None or partition.partition >= topic.partition_count:
            raise OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} no longer exists")
        partition_id = PartitionId(topic.id, partition.partition)
        leader = image.partitions[partition_id].leader
        if leader == NO_LEADER or leader not in image.brokers:
            raise OttlaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} currently has no leader")
        return image.brokers[leader].address, partition_id

    async def _of_leader(
        self, address: str, partitions: Mapping[PartitionId, TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> Lags:
        peer = self._peers.at(address)
        lags: Lags = {}
        items = iter(partitions.items())
        while part := dict(islice(items, _PARTITIONS_A_CALL)):
            lags |= await _of_few(peer, part, committed)
        return lags


async def _of_few(
    peer: AioPeer, partitions: Mapping[PartitionId, TopicPartition], committed: Mapping[TopicPartition, int]
) -> Lags:
    try:
        lags = await _ends(peer, partitions, committed)
        behind = [i for i, p in partitions.items() if lags[p].records > 0]
        if behind:
            await _add_times(peer, behind, partitions, lags)
    except OttlaError as error:
        return {partition: Lag(committed[partition], error=error) for partition in partitions.values()}
    return lags


async def _ends(
    peer: AioPeer, partitions: Mapping[PartitionId, TopicPartition], committed: Mapping[TopicPartition, int]
) -> Lags:
    request = pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsPartition(topic_id=i.topic_id, partition=i.partition, timestamp_ms=when)
            for i in partitions
            for when in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        ]
    )
    response = await peer.call(Broker.LIST_OFFSETS, request, timeout=_ASK_S)
    offsets = iter(response.partitions)  # in the order of the request
    return {
        partition: _lag(committed[partition], first, last)
        for partition, first, last in zip(partitions.values(), offsets, offsets, strict=True)
    }


def _lag(committed: int, first: pb.PartitionOffset, last: pb.PartitionOffset) -> Lag:
    for end in (first, last):
        if end.error.code:
            return Lag(committed, error=OttlaError(end.error.code, end.error.message))
    return Lag(committed, first.offset, last.offset)


async def _add_times(
    peer: AioPeer, behind: Iterable[PartitionId], partitions: Mapping[PartitionId, TopicPartition], lags: Lags
) -> None:
    """Add the times of lags, one after another, because only the first batch of a response comes whole, whatever its
    size."""
    stream = peer.open_stream(Broker.FETCH)
    try:
        for partition_id in behind:
            lag = lags[partitions[partition_id]]
            request = pb.FetchRequest(min_bytes=1, max_bytes=_FIRST_BATCH)
            request.partitions.add(
                topic_id=partition_id.topic_id,
                partition=partition_id.partition,
                fetch_offset=lag.next_unread,
                max_bytes=_FIRST_BATCH,
            )
            response = await stream.exchange(request, timeout_ms=int(_ASK_S * 1000), timeout=_ASK_S)
            oldest = _timestamp_at(response.partitions[0].records, lag.next_unread)
            lags[partitions[partition_id]] = replace(lag, oldest_unread_ms=oldest)
    finally:
        await stream.close()


def _timestamp_at(records: bytes, offset: int) -> int | None:
    """Return the timestamp of the first record from `offset` on. Return None if the batch ends before it, if its
    timestamps mean nothing, or if no one can read it."""
    view = memoryview(records)
    for at, header in iter_headers(records):
        if header.next_offset > offset and not header.is_control:
            try:
                found = read_records(view[at : at + header.size_bytes])
            except OttlaError:
                return None
            for record_offset, timestamp_ms, *_ in found:
                if record_offset >= offset:
                    return None if timestamp_ms < 0 else timestamp_ms
    return None
