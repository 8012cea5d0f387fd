"""Copying leaders' logs: one stream to each broker that leads partitions which this one follows.

A fetch names every followed partition of that broker with the offset that comes next, which is how the leader learns
what this replica has; the response holds the leader's batches, its high watermark, and where the logs have parted.
Nothing is remembered between two fetches but the logs themselves, so any failure is followed by the same fetch again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

from ottla_broker.machines.epochs import EpochStart
from ottla_broker.registration_view import UNREGISTERED, RegistrationView
from ottla_broker.replication.follower_role import LeaderResponse
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replicas import Replicas
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.aio_stream import AioFrameStream
from ottla_core.rpc.retry import Backoff
from ottla_core.slices import Slice
from ottla_core.tasks import end_task
from ottla_proto import broker_pb2 as pb
from ottla_proto import contracts

_log = logging.getLogger(__name__)

_RESPONSE_LIMIT_S: Final = 30.0
"""Kafka's replica.socket.timeout.ms: beside the time that the leader may park the fetch."""

_SOON_S: Final = 0.05
_BEHIND: Final = frozenset(
    {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
"""One side has not heard of an election yet: a moment is enough."""


class Replication:
    """A component: follows whom `replicas` say."""

    def __init__(self, replicas: Replicas, metadata: MetadataFollower, registration: RegistrationView) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._registration = registration
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._started = False

    async def start(self) -> None:
        self._started = True
        self._replicas.on_change(self._assign)
        self._assign()

    async def stop(self) -> None:
        self._started = False
        fetchers, self._fetchers = self._fetchers, {}
        await asyncio.gather(*(fetcher.stop() for fetcher in fetchers.values()), *self._ending)

    def lag(self) -> int:
        """The largest number of records that a followed leader's high watermark is ahead, as of its last response."""
        return max((fetcher.lag for fetcher in self._fetchers.values()), default=0)

    def _assign(self) -> None:
        """Give every leader's fetcher the replicas that follow it now."""
        if not self._started:
            return
        by_leader: dict[int, dict[PartitionId, Replica]] = {}
        for replica in self._replicas.all():
            if replica.leader_id is not None:
                by_leader.setdefault(replica.leader_id, {})[replica.id] = replica
        brokers = self._metadata.image.brokers
        for leader_id in list(self._fetchers):
            broker = brokers.get(leader_id)
            gone = leader_id not in by_leader or (
                broker is not None and broker.address != self._fetchers[leader_id].address
            )
            if gone:
                ending = asyncio.create_task(self._fetchers.pop(leader_id).stop())
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
        for leader_id, followed in by_leader.items():
            fetcher = self._fetchers.get(leader_id)
            broker = brokers.get(leader_id)
            if fetcher is None and broker is not None:
                fetcher = self._fetchers[leader_id] = ReplicaFetcher(broker, self._replicas, self._registration)
            if fetcher is not None:
                fetcher.follow(followed)


class ReplicaFetcher:
    """One leader's partitions, over one stream."""

    def __init__(self, leader: Broker, replicas: Replicas, registration: RegistrationView) -> None:
        self.address: Final = leader.address
        self.lag = 0
        self._leader_id: Final = leader.id
        self._replicas = replicas
        self._registration = registration
        self._peer: Final = AioPeer(leader.address, client_id=f"replica-{registration.current().broker_id}")
        self._followed: dict[PartitionId, Replica] = {}
        self._epochs: Mapping[PartitionId, int] = {}
        self._resting: dict[PartitionId, float] = {}
        """Until when a partition is left out, after an error."""
        self._truncations: set[asyncio.Task[None]] = set()
        self._seen_confirmation = 0  # in the last response on the present stream (leadership_confirmation)
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"fetch-from-{leader.id}")

    def follow(self, followed: dict[PartitionId, Replica]) -> None:
        """These and no others; a fetch that is delayed for what was followed before is given up."""
        epochs = {p: replica.leader_epoch for p, replica in followed.items()}
        if epochs != self._epochs or followed != self._followed:
            self._followed, self._epochs = followed, epochs
            self._resting.clear()
            self._changed.set()

    async def stop(self) -> None:
        await end_task(self._task)
        for task in self._truncations:
            task.cancel()
        await asyncio.gather(*self._truncations, return_exceptions=True)
        await self._peer.close()

    async def _run(self) -> None:
        backoff = Backoff(first_s=0.05, most_s=1.0)
        while True:
            stream = self._peer.open_stream(contracts.Broker.FETCH)
            self._seen_confirmation = 0
            try:
                while True:
                    await self.round(stream)
                    backoff.reset()
            except OttlaError as error:
                if not backoff.attempts:
                    _log.warning("can't fetch from broker %d, trying on: %s", self._leader_id, error)
            except Exception:
                _log.exception("fetching from broker %d failed, trying on", self._leader_id)
            finally:
                await stream.close()
            await asyncio.sleep(backoff.next())

    async def round(self, stream: AioFrameStream[pb.FetchRequest, pb.FetchResponse]) -> None:
        """One fetch and what follows from it; given up when there is something else to follow."""
        self._changed.clear()
        now = asyncio.get_running_loop().time()
        replicas = [
            replica
            for p, replica in self._followed.items()
            if self._resting.get(p, 0.0) <= now and not replica.is_in_a_thread
        ]
        if not replicas or self._registration.current().epoch == UNREGISTERED:  # the leader would not know the caller
            await self._rest(now)
            return None
        # flush.messages: what a fetch says that this replica has is fsynced.
        if unflushed := [replica for replica in replicas if replica.must_flush]:
            done = await asyncio.gather(*(replica.flushed() for replica in unflushed), return_exceptions=True)
            for replica, error in zip(unflushed, done, strict=True):
                if error is not None:
                    self._on_error(replica, error)
                    replicas.remove(replica)
            if not replicas:
                return await self._rest(now)
        request = self._request(replicas)
        sent = {replica.id: (replica, part) for replica, part in zip(replicas, request.partitions, strict=True)}
        fetching = asyncio.create_task(
            stream.exchange(
                request,
                timeout_ms=request.max_wait_ms + int(_RESPONSE_LIMIT_S * 1000),
                timeout=request.max_wait_ms / 1000 + _RESPONSE_LIMIT_S,
            )
        )
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({fetching, changed}, return_when=asyncio.FIRST_COMPLETED)
            if fetching.done():
                await self._on_response(fetching.result(), sent)
        finally:
            changed.cancel()
            fetching.cancel()
            await asyncio.gather(changed, fetching, return_exceptions=True)

    async def _rest(self, now: float) -> None:
        """Until something is to be followed, or the first error is over."""
        over_at = min((at for p, at in self._resting.items() if p in self._followed), default=now + _SOON_S)
        try:
            async with asyncio.timeout(max(over_at - now, 0.0)):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _request(self, replicas: Iterable[Replica]) -> pb.FetchRequest:
        broker_id, broker_epoch = self._registration.current()
        settings = self._replicas.settings
        follower = pb.Follower(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            seen_confirmation=self._seen_confirmation,
            secret=self._registration.secret,
        )
        request = pb.FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.response_max_bytes,
            follower=follower,
        )
        for replica in replicas:
            log = replica.log
            request.partitions.add(
                topic_id=replica.id.topic_id,
                partition=replica.id.partition,
                current_leader_epoch=replica.leader_epoch,
                fetch_offset=log.log_end_offset,
                max_bytes=settings.fetch_max_bytes,
                last_fetched_epoch=log.epochs.latest,
                high_watermark=replica.high_watermark,
                log_start_offset=log.log_start_offset,
            )
        return request

    async def _on_response(
        self, response: pb.FetchResponse, requested: Mapping[PartitionId, tuple[Replica, pb.FetchPartition]]
    ) -> None:
        """Ten megabytes may come at once where a replica catches up: others have turns between its partitions."""
        lag, slice_ = 0, Slice()
        self._seen_confirmation = response.newest_confirmation
        for part in response.partitions:
            replica, request = requested[PartitionId(TopicId(part.topic_id), part.partition)]
            try:
                self._on_partition(replica, request, part)
                if part.records:
                    self._last(replica.id)
            except Exception as error:  # of this partition alone
                self._on_error(replica, error)
            lag = max(lag, part.high_watermark - replica.log.log_end_offset)
            await slice_.rest()
        self.lag = lag

    def _last(self, partition_id: PartitionId) -> None:
        """Responses are bounded: partitions that got records are requested after those that did not (rule 57)."""
        if (replica := self._followed.pop(partition_id, None)) is not None:
            self._followed[partition_id] = replica

    def _on_partition(self, replica: Replica, request: pb.FetchPartition, part: pb.PartitionFetched) -> None:
        epoch = request.current_leader_epoch
        if part.error.code == ErrorCode.OFFSET_OUT_OF_RANGE and part.log_start_offset > request.fetch_offset:
            self._truncate(replica, replica.on_out_of_range(epoch, part.log_start_offset))
        elif part.error.code:
            raise OttlaError(part.error.code, part.error.message)
        elif part.HasField("diverging_epoch"):
            end = part.diverging_epoch
            self._truncate(replica, replica.on_diverging(epoch, EpochStart(end.leader_epoch, end.end_offset)))
        else:
            response = LeaderResponse(part.records, part.high_watermark, part.log_start_offset)
            replica.on_fetched(request.fetch_offset, epoch, response)
        self._resting.pop(replica.id, None)

    def _truncate(self, replica: Replica, truncation: Coroutine[Any, Any, None]) -> None:
        """Beside the fetches of the others: a truncation waits for the disk, and a thousand may come with one response.

        The next fetch leaves out partitions that are being truncated. The last truncation ends a fetch that is delayed
        meanwhile.
        """

        def on_done(done: asyncio.Task[None]) -> None:
            self._truncations.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._on_error(replica, error)
            if not self._truncations:
                self._changed.set()

        task = asyncio.create_task(truncation, name=f"truncate-{replica}")
        self._truncations.add(task)
        task.add_done_callback(on_done)

    def _on_error(self, replica: Replica, error: BaseException) -> None:
        """Leave the partition out for a while; the others continue."""
        known = isinstance(error, OttlaError)
        behind = isinstance(error, OttlaError) and error.code in _BEHIND
        rest_s = _SOON_S if behind else self._replicas.settings.backoff_s
        if not behind and replica.id not in self._resting:  # logged once: a disk may be full for long
            text = "%s can't follow broker %d: %s"
            _log.warning(text, replica, self._leader_id, error, exc_info=None if known else error)
        self._resting[replica.id] = asyncio.get_running_loop().time() + rest_s
