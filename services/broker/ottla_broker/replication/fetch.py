"""A consumer's fetch over several partitions: read what is there, and park until there is enough (rules 55 to 57).

Up to the high watermark, from the leader or, where it has sent the consumer there, from a follower (KIP-392).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from ottla_broker.machines.closest import find_closest
from ottla_broker.machines.epochs import EpochStart
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.response_memory import UNBOUNDED, ResponseRoom
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId
from ottla_core.records.batch import whole_batches
from ottla_core.slices import Slice

MAX_RESPONSE_BYTES: Final = 4 << 20
"""Of one fetch, whatever limit it sets (but for a first batch that is larger): what a client that does not read its
responses can hold in memory is this, times the frames that a stream may have in flight."""

_ANY_OFFSET: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """What is wanted of one partition; `leader_epoch` None is not checked."""

    id: PartitionId
    leader_epoch: int | None
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What came of it. `records` may begin below the wanted offset: batches are whole.

    `completes_fetch` whatever the others have: an error, news that can't wait, more records than may be answered.
    """

    id: PartitionId
    records: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = -1
    error: OttlaError | None = None
    diverging: EpochStart | None = None
    preferred_replica: int | None = None
    completes_fetch: bool = False


async def fetch(
    requests: Sequence[PartitionFetch],
    consumers: Consumers,
    *,
    max_wait_s: float,
    min_bytes: int,
    max_bytes: int,
    room: ResponseRoom = UNBOUNDED,
) -> list[FetchResult]:
    """Answer once `min_bytes` can be read, one partition is worth it, or `max_wait_s` is over.

    The first batch of the response comes whole even if it is larger than `max_bytes` (KIP-74). Less is read where there
    is less `room`, and nothing where there is none.
    """
    deadline = asyncio.get_running_loop().time() + max_wait_s
    with consumers.purgatory.delayed(request.id for request in requests) as delayed:
        while True:
            # Delayed and marked first, then looked at: what is appended during the look is not slept over (rule 55).
            delayed.mark()
            fetched = await _read_all(requests, consumers, max_bytes, room)
            missing_bytes = _missing(fetched, min_bytes)
            if missing_bytes <= 0 or max_wait_s <= 0:
                break
            room.give_back(sum(len(part.records) for part in fetched))
            del fetched  # what was read is not kept while more is waited for
            if not await delayed.sleep(deadline, missing_bytes):
                # What has come meanwhile, though it is not enough.
                fetched = await _read_all(requests, consumers, max_bytes, room)
                break
    consumers.on_response(fetched)
    return fetched


def _missing(fetched: Sequence[FetchResult], min_bytes: int) -> int:
    """Bytes that are still to come before the fetch is worth a response."""
    if any(part.completes_fetch for part in fetched):
        return 0
    missing = min_bytes - sum(len(part.records) for part in fetched)
    if missing > 0 and any(ends_before(part.records, part.high_watermark) for part in fetched if part.records):
        return 0
    return missing


def ends_before(records: bytes, offset: int) -> bool:
    """Whether a limit kept back what could be read already, up to `offset`: waiting would bring no more."""
    return whole_batches(records, _ANY_OFFSET)[1] < offset


async def _read_all(
    requests: Sequence[PartitionFetch], consumers: Consumers, max_bytes: int, room: ResponseRoom
) -> list[FetchResult]:
    fetched: list[FetchResult] = []
    left, slice_ = max_bytes, Slice()
    for request in requests:
        await slice_.rest()
        part = await _read(request, consumers, min(left, request.max_bytes), room, first=left == max_bytes)
        left -= len(part.records)
        fetched.append(part)
    return fetched


async def _read(
    request: PartitionFetch, consumers: Consumers, max_bytes: int, room: ResponseRoom, *, first: bool
) -> FetchResult:
    replica: Replica | None = None
    try:
        replica = consumers.replica(request)
        instead = consumers.instead(request, replica)
        if instead is not None:
            return instead
        records = b""
        if max_bytes > 0:
            limit = replica.high_watermark
            records = await _read_records(replica, request.offset, max_bytes, limit, room, first=first)
    except OttlaError as error:
        if replica is None:
            return FetchResult(request.id, error=error, completes_fetch=True)
        watermark, start = replica.high_watermark, replica.log.log_start_offset
        return FetchResult(request.id, b"", watermark, start, error, completes_fetch=True)
    return FetchResult(request.id, records, replica.high_watermark, replica.log.log_start_offset)


async def _read_records(
    replica: Replica, offset: int, max_bytes: int, limit: int, room: ResponseRoom, *, first: bool
) -> bytes:
    if offset == limit:
        return await replica.read(offset, max_bytes, limit, min_one_batch=first)  # nothing, or that it is not there
    records, lent_bytes = b"", room.lend(max_bytes)
    try:
        if lent_bytes > 0:
            records = await replica.read(offset, lent_bytes, limit, min_one_batch=first)
    finally:
        room.give_back(lent_bytes - len(records))
    return records


class Consumers:
    """Who reads up to the high watermark. `closest` knows a nearer replica, where one was requested; `any_replica`: a
    leader may have sent them here."""

    def __init__(self, replicas: ReplicaTable, closest: Closest | None, *, any_replica: bool) -> None:
        self.purgatory: Final = replicas.consumers
        self._replicas = replicas
        self._closest = closest
        self._any_replica = any_replica

    def replica(self, request: PartitionFetch) -> Replica:
        """The replica to read from, or OttlaError."""
        replica = self._replicas.find(request.id)
        replica.check_epoch(request.leader_epoch)
        if not self._any_replica:
            replica.check_leader(None)
        if not replica.leads:
            replica.on_reader()
        return replica

    def instead(self, request: PartitionFetch, replica: Replica) -> FetchResult | None:
        """A leader's response that names a nearer replica, where there is one."""
        if self._closest is None or not replica.leads or (closest := self._closest(replica, request.offset)) is None:
            return None
        start = replica.log.log_start_offset
        return FetchResult(
            request.id, b"", replica.high_watermark, start, preferred_replica=closest, completes_fetch=True
        )

    def on_response(self, fetched: Sequence[FetchResult]) -> None:
        """It is sent."""
        with suppress(OttlaError):  # one may have gone meanwhile
            for part in fetched:
                if part.records:
                    self._replicas.find(part.id).traffic.bytes_out += len(part.records)


class Closest(Protocol):
    def __call__(self, replica: Replica, offset: int) -> int | None:
        """An in-sync replica in the consumer's rack that has `offset`, unless this broker is as close."""
        ...


def closest_to(rack: str, image: ClusterImage, leader_id: int) -> Closest | None:
    """Which replica a consumer in that rack is sent to; None for one that has no rack. The brokers are looked at once,
    for all partitions of a fetch."""
    if not rack:
        return None
    racks = {broker_id: broker.rack for broker_id, broker in image.live_brokers().items()}
    return lambda replica, offset: find_closest(replica.check_leader(None), leader_id, racks, rack, offset)
