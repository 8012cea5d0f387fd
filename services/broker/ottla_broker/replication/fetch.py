"""A consumer's fetch over several partitions: it reads what is there, and parks until there is enough.

It reads up to the high watermark or, for consumers of committed records, up to the last stable offset (rule 17). It
reads from the leader or, if the leader has sent the consumer there, from a follower (KIP-392).

`min_bytes` counts only bytes that the consumer may read, over all its partitions together (rule 56). What was read is
dropped while the fetch waits for more, because a parked fetch that kept it would hold memory for up to `max_wait_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from ottla_broker.machines.closest import find_closest
from ottla_broker.machines.fetch_session import FetchSession, K, R
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset, ReadLimit
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.replication.fetch_purgatory import DelayedFetch
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.response_memory import UNBOUNDED, ResponseRoom
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId
from ottla_core.records.batch import ANY_OFFSET, whole_batches
from ottla_core.records.leader_epochs import EpochStart

MAX_RESPONSE_BYTES: Final = 4 << 20
"""The most that one fetch returns, whatever its limits. Only a first batch may be larger. A client that does not read
its responses can hold this much memory for each frame that a stream may have in flight."""


class PartitionFetch(NamedTuple):
    """The request for one partition. A `leader_epoch` of None is not checked."""

    id: PartitionId
    leader_epoch: int | None
    offset: int
    max_bytes: int


class FetchResult(NamedTuple):
    """The result for one partition.

    `records` has whole batches and may begin below the requested offset. `aborted` lists the transactions among them
    whose records a consumer of committed records skips. `completes_fetch` says that the fetch waits no longer, whatever
    the other partitions have: an error, a change that can't wait, or more records than fit. `epochs` are those that a
    follower has to know of the records. Tombstones and markers before `purged_before` may be gone: it is 0 for a
    follower that has met them.
    """

    id: PartitionId
    records: bytes = b""
    high_watermark: HighWatermark = HighWatermark(-1)
    log_start_offset: int = -1
    error: OttlaError | None = None
    diverging: EpochStart | None = None
    preferred_replica: int | None = None
    completes_fetch: bool = False
    last_stable_offset: LastStableOffset = LastStableOffset(-1)
    aborted: Sequence[AbortedTransaction] = ()
    epochs: Sequence[EpochStart] = ()
    purged_before: int = 0


class FetchLimits(NamedTuple):
    """A fetch is answered once `min_bytes` can be read, one partition is worth it, or `max_wait_s` is over.

    The first batch of the response comes whole even if it is larger than `max_bytes` (KIP-74): otherwise a consumer
    would never get past it. If there is less `room`, less is read.
    """

    max_wait_s: float
    min_bytes: int
    max_bytes: int
    room: ResponseRoom = UNBOUNDED


async def fetch(requests: Iterable[PartitionFetch], consumers: Consumers, limits: FetchLimits) -> list[FetchResult]:
    """Fetch without a session. Return a result for each request."""
    session: FetchSession[int, PartitionFetch, DelayedFetch] = FetchSession(consumers.purgatory, DelayedFetch())
    for number, request in enumerate(requests):
        session.name(number, request)
    try:
        return [*(await fetch_due(session, itself, consumers, limits, whole=True)).values()]
    finally:
        session.end()


def itself(request: PartitionFetch) -> PartitionFetch:
    """Return the request itself, because the session has it in this form."""
    return request


async def fetch_due(
    session: FetchSession[K, R, DelayedFetch],
    to_read: Callable[[R], PartitionFetch | FetchResult],
    consumers: Consumers,
    limits: FetchLimits,
    *,
    whole: bool,
) -> dict[K, FetchResult]:
    """Return the results of the partitions that were looked at.

    These are those that were due, and those with an event in the meantime.

    `to_read` returns what is to be read for a request, or a result if there is nothing to read from. A partition stays
    due if it failed, if more of it can be read, or if the limits were reached before its turn. With `whole`, every
    partition is looked at even then.
    """
    delayed = session.parked
    deadline = asyncio.get_running_loop().time() + limits.max_wait_s
    fetched: dict[K, FetchResult] = {}
    is_over = limits.max_wait_s <= 0
    while True:
        # The mark comes before the look, so that the fetch does not sleep over what is appended during the look (rule
        # 55).
        session.is_idle = False
        delayed.mark()
        looked = await _look(session, to_read, consumers, limits, whole=whole)
        fetched |= looked
        missing_bytes = _missing(looked.values(), consumers, limits.min_bytes)
        if missing_bytes <= 0 or is_over:
            consumers.on_response(looked.values())
            session.is_idle = True
            return fetched
        # The records are not kept while the fetch waits for more.
        fetched |= {key: part._replace(records=b"", aborted=()) for key, part in looked.items() if part.records}
        limits.room.give_back(sum(len(part.records) for part in looked.values()))
        del looked
        is_over = not await consumers.purgatory.park(delayed, deadline, missing_bytes)


def _missing(looked: Collection[FetchResult], consumers: Consumers, min_bytes: int) -> int:
    """Return how many bytes are still to come before the fetch is worth a response."""
    if any(part.completes_fetch for part in looked):
        return 0
    missing = min_bytes - sum(len(part.records) for part in looked)
    if missing > 0 and any(ends_before(part.records, consumers.limit(part)) for part in looked if part.records):
        return 0
    return missing


def ends_before(records: bytes, offset: int) -> bool:
    """Return whether a limit kept back records that can be read up to `offset`. Then waiting would bring no more."""
    return whole_batches(records, ANY_OFFSET)[1] < offset


async def _look(
    session: FetchSession[K, R, DelayedFetch],
    to_read: Callable[[R], PartitionFetch | FetchResult],
    consumers: Consumers,
    limits: FetchLimits,
    *,
    whole: bool,
) -> dict[K, FetchResult]:
    looked: dict[K, FetchResult] = {}
    left, is_first, slice_ = limits.max_bytes, True, Slice()
    for key in session.due:
        if left <= 0 and not whole and not is_first:
            break
        await slice_.rest()
        request = to_read(session.requested[key])
        if isinstance(request, FetchResult):
            looked[key] = request
            continue
        session.look_at(key, request.id)
        most_bytes = min(left, request.max_bytes)
        part = looked[key] = await _read(request, consumers, most_bytes, limits.room, first=is_first)
        if part.completes_fetch or request.offset < consumers.limit(part):
            session.look_again(key)
            if not (whole or is_first or part.records or part.completes_fetch) and most_bytes == left:
                looked[key] = part._replace(completes_fetch=True)
                # its first batch is larger than the room that is left, and comes whole then
                session.look_again(key, first=True)
                break
        left -= len(part.records)
        is_first = is_first and not part.records
    return looked


async def _read(
    request: PartitionFetch, consumers: Consumers, max_bytes: int, room: ResponseRoom, *, first: bool
) -> FetchResult:
    replica: Replica | None = None
    try:
        replica = consumers.replica(request)
        instead = consumers.instead(request, replica)
        if instead is not None:
            return instead
        records, (start, stable, watermark) = b"", replica.offsets.positions
        limit: ReadLimit = stable if consumers.read_committed else watermark
        if first:
            max_bytes = max(1, max_bytes)  # the first batch comes even with a limit of 0
        if max_bytes > 0 and request.offset != limit:  # else nothing is there; a cut of the log wakes waiters
            records = await _read_records(replica, request.offset, max_bytes, limit, room, first=first)
        aborted: Sequence[AbortedTransaction] = ()
        if records and consumers.read_committed:
            aborted = await _aborted(replica, request.offset, records, room)
    except OttlaError as error:
        if replica is None:
            return FetchResult(request.id, error=error, completes_fetch=True)
        return consumers.position(replica)._replace(error=error, completes_fetch=True)
    return FetchResult(request.id, records, watermark, start, last_stable_offset=stable, aborted=aborted)


async def _aborted(replica: Replica, offset: int, records: bytes, room: ResponseRoom) -> Sequence[AbortedTransaction]:
    try:
        return await replica.disk.aborted(offset, records)
    except BaseException:
        room.give_back(len(records))
        raise


async def _read_records(
    replica: Replica, offset: int, max_bytes: int, limit: ReadLimit, room: ResponseRoom, *, first: bool
) -> bytes:
    records, lent_bytes = b"", room.lend(max_bytes)
    try:
        if lent_bytes > 0:
            records = await replica.disk.read(offset, lent_bytes, limit, min_one_batch=first)
    finally:
        room.give_back(lent_bytes - len(records))
    return records


class Consumers:
    """Readers up to the high watermark or, with `read_committed`, up to the last stable offset. `closest` finds a
    nearer replica, if one was requested. With `any_replica`, a leader may have sent them here."""

    def __init__(
        self, replicas: ReplicaTable, closest: Closest | None, *, any_replica: bool, read_committed: bool = False
    ) -> None:
        self.purgatory: Final = replicas.consumers
        self.read_committed: Final = read_committed
        self._replicas = replicas
        self._closest = closest
        self._any_replica = any_replica

    def replica(self, request: PartitionFetch) -> Replica:
        """Return the replica to read from. Raises what `Replica.led_in` and `Replica.check_epoch` raise."""
        replica = self._replicas.find(request.id)
        if self._any_replica:
            replica.check_epoch(request.leader_epoch)
        else:
            replica.led_in(request.leader_epoch)
        if not replica.leads:
            replica.on_reader()
        return replica

    def position(self, replica: Replica) -> FetchResult:
        """Return how far a replica may be read now."""
        start, stable, watermark = replica.offsets.positions
        return FetchResult(replica.id, b"", watermark, start, last_stable_offset=stable)

    def limit(self, part: FetchResult) -> ReadLimit:
        """Return the offset up to which these consumers may read."""
        return part.last_stable_offset if self.read_committed else part.high_watermark

    def instead(self, request: PartitionFetch, replica: Replica) -> FetchResult | None:
        """Return a leader's response that names a nearer replica, if there is one."""
        if self._closest is None or not replica.leads or (closest := self._closest(replica, request.offset)) is None:
            return None
        return self.position(replica)._replace(preferred_replica=closest, completes_fetch=True)

    def on_response(self, fetched: Iterable[FetchResult]) -> None:
        """Count what a response sends."""
        for part in fetched:
            if part.records and (replica := self._replicas.get(part.id)) is not None:  # the replica may have gone since
                replica.traffic.bytes_out += len(part.records)


class Closest(Protocol):
    def __call__(self, replica: Replica, offset: int) -> int | None:
        """Return an in-sync replica in the consumer's rack that has `offset`, or None if this broker is as close."""
        ...


def closest_to(rack: str, image: ClusterImage, leader_id: int) -> Closest | None:
    """Return the function that picks the replica for consumers in a rack, or None for consumers without a rack."""
    if not rack:
        return None

    def rack_of(broker_id: int) -> str | None:
        broker = image.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.rack

    return lambda replica, at: find_closest(replica.led_in(None).leader, leader_id, rack_of, rack, at)
