"""Copying leaders' logs: one stream to each broker that leads partitions which this one follows.

A fetch names partitions of that broker with the offset that comes next, which is how the leader learns what this
replica has; the response holds the leader's batches, its high watermark, and where the logs have parted. A stream is a
session (machines.followed_leader): its first fetch names all, the others what has changed. After a failure another
stream begins anew.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Coroutine, Sized
from typing import Any, Final

from ottla_broker.machines.epochs import EpochStart
from ottla_broker.machines.followed_leader import FollowedLeader, Named
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.peers.registration_view import UNREGISTERED, RegistrationView
from ottla_broker.replication.following import Following, LeaderResponse
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replicas import Replicas
from ottla_broker.replication.replication_config import most_bytes
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.event_loop.tasks import end_task
from ottla_core.model import NO_LEADER, PartitionId, TopicId
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.aio_stream import AioFrameStream
from ottla_core.rpc.retry import Backoff
from ottla_proto import broker_pb2 as pb
from ottla_proto import contracts

_log = logging.getLogger(__name__)

_RESPONSE_LIMIT_S: Final = 30.0
"""Kafka's replica.socket.timeout.ms: beside the time that the leader may park the fetch."""

_SOON_S: Final = 0.05
_GATHERING_S: Final = 0.005
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
        self._leader_of: dict[PartitionId, int] = {}
        self._unplaced: dict[PartitionId, Replica] = {}
        """Replicas whose leaders this broker's metadata does not know, or no longer knows."""
        self._ending: set[asyncio.Task[None]] = set()
        self._started = False

    async def start(self) -> None:
        self._started = True
        self._replicas.on_role_change(self._on_role_change)
        self._metadata.on_change(self._on_image)
        for replica in self._replicas.table.all():
            self._on_role_change(replica)

    async def stop(self) -> None:
        self._started = False
        fetchers, self._fetchers = self._fetchers, {}
        await asyncio.gather(*(fetcher.stop() for fetcher in fetchers.values()), *self._ending)

    def lag(self) -> int:
        """The largest number of records that a followed leader's high watermark is ahead, as of its last response."""
        return max((fetcher.lag for fetcher in self._fetchers.values()), default=0)

    def _on_role_change(self, replica: Replica) -> None:
        """At once: no fetch that is sent from now on may say that a leader is followed in an epoch that is over."""
        if not self._started:
            return
        former = self._fetchers.get(self._leader_of.get(replica.id, NO_LEADER))
        if former is not None and former.leader_id != replica.leader_id:
            former.leave(replica)
            if former.is_idle:
                self._end(former.leader_id)
        if self._unplaced.get(replica.id) is replica:
            del self._unplaced[replica.id]
        if replica.leader_id is not None:
            self._follow(replica, replica.leader_id)
        elif former is not None and not former.follows(replica.id):
            self._leader_of.pop(replica.id, None)

    def _follow(self, replica: Replica, leader_id: int) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            leader = self._metadata.image.brokers.get(leader_id)
            if leader is None:
                self._unplaced[replica.id] = replica
                return
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(
                leader, self._fetchers, self._replicas, self._registration
            )
            fetcher.start()
        self._leader_of[replica.id] = leader_id
        fetcher.follow(replica)

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """A leader has come, or come back at another address."""
        if not self._started or new.brokers is old.brokers:
            return
        for leader_id, fetcher in list(self._fetchers.items()):
            leader = new.brokers.get(leader_id)
            if leader is not None and leader.address != fetcher.address:
                self._unplaced |= {replica.id: replica for replica in fetcher.followed}
                self._end(leader_id)
        unplaced, self._unplaced = self._unplaced, {}
        for replica in unplaced.values():
            if replica.leader_id is not None:
                self._follow(replica, replica.leader_id)

    def _end(self, leader_id: int) -> None:
        ending = asyncio.create_task(self._fetchers.pop(leader_id).stop())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


class ReplicaFetcher:
    """One leader's partitions, over one stream. `leaders`: all that are followed, with this one."""

    def __init__(self, leader: Broker, leaders: Sized, replicas: Replicas, registration: RegistrationView) -> None:
        self.address: Final = leader.address
        self.leader_id: Final = leader.id
        self._leaders: Final = leaders
        self._replicas = replicas
        self._registration = registration
        self._peer: Final = AioPeer(leader.address, client_id=f"replica-{registration.current().broker_id}")
        self._leader: Final[FollowedLeader[Replica]] = FollowedLeader()
        self._lags: dict[PartitionId, int] = {}
        self._in_trouble: set[PartitionId] = set()
        """Partitions whose last fetch failed; that was logged."""
        self._truncations: set[asyncio.Task[None]] = set()
        self._seen_confirmation = 0  # in the last response on the present stream (leadership_confirmation)
        self._broker_epoch = UNREGISTERED
        """The incarnation that began the session: the leader counts what was named in it as this one's (rule 11)."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"fetch-from-{self.leader_id}")

    @property
    def followed(self) -> Collection[Replica]:
        return self._leader.followed

    def follows(self, partition_id: PartitionId) -> bool:
        return self._leader.get(partition_id) is not None

    @property
    def is_idle(self) -> bool:
        return not self._leader.followed

    @property
    def lag(self) -> int:
        """The largest number of records that the leader's high watermark is ahead, as of its last responses."""
        return max(self._lags.values(), default=0)

    def follow(self, replica: Replica) -> None:
        """From now on, or in another leader epoch; a fetch that is delayed is given up for one that says so."""
        self._in_trouble.discard(replica.id)
        self._leader.follow(replica.id, replica)
        self._changed.set()

    def leave(self, replica: Replica) -> None:
        if self._leader.get(replica.id) is replica:
            self._in_trouble.discard(replica.id)
            self._lags.pop(replica.id, None)
            self._leader.leave(replica.id)
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
            stream = self._peer.open_stream(contracts.Broker.REPLICA_FETCH)
            self._seen_confirmation, self._broker_epoch = 0, UNREGISTERED
            try:
                while True:
                    await self.round(stream)
                    backoff.reset()
            except OttlaError as error:
                if not backoff.attempts:
                    _log.warning("can't fetch from broker %d, retrying: %s", self.leader_id, error)
            except Exception:
                _log.exception("fetching from broker %d failed, retrying", self.leader_id)
            finally:
                await stream.close()
            await asyncio.sleep(backoff.next())

    async def round(self, stream: AioFrameStream[pb.FetchRequest, pb.FetchResponse]) -> None:
        """One fetch and what follows from it; given up when there is something else to say."""
        self._changed.clear()
        broker_epoch = self._registration.current().epoch
        if broker_epoch == UNREGISTERED or self.is_idle:  # the leader would not know the caller
            await self._until_changed(_SOON_S)
            return
        if broker_epoch != self._broker_epoch:
            self._broker_epoch = broker_epoch
            self._leader.begin(secrets.randbits(64))
        await self._flush_changed()
        request = self._request()
        sent = await stream.send(request, timeout_ms=request.max_wait_ms + int(_RESPONSE_LIMIT_S * 1000))
        limit_s = request.max_wait_ms / 1000 + _RESPONSE_LIMIT_S
        responding = asyncio.create_task(stream.response_to(sent, timeout=limit_s))
        responding.add_done_callback(lambda _: self._changed.set())
        try:
            await self._changed.wait()
            if not responding.done():  # more may change at once; and a response that is near is not wasted
                await asyncio.wait({responding}, timeout=_GATHERING_S)
            if responding.done():
                await self._on_response(responding.result())
        finally:
            if responding.cancel():
                await asyncio.gather(responding, return_exceptions=True)
            elif not responding.cancelled():
                responding.exception()  # of a round that is cancelled: that is not a bug

    async def _until_changed(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _flush_changed(self) -> None:
        """flush.messages: what a fetch says that this replica has is fsynced (rule 20)."""
        unflushed = [replica for _, replica in self._leader.changed() if replica.disk.must_flush]
        done = await asyncio.gather(*(replica.disk.flushed() for replica in unflushed), return_exceptions=True)
        for replica, error in zip(unflushed, done, strict=True):
            if error is not None:
                self._on_error(replica, error)

    def _request(self) -> pb.FetchRequest:
        """Without a yield: it says how everything is now."""
        settings, leader = self._replicas.settings, self._leader
        request = pb.FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=most_bytes(settings.response_max_bytes, len(self._leaders)),
        )
        follower = request.follower
        follower.broker_id, follower.broker_epoch = self._registration.current().broker_id, self._broker_epoch
        follower.seen_confirmation, follower.secret = self._seen_confirmation, self._registration.secret
        follower.session.id, follower.session.responses = leader.session_id, leader.responses
        follower.session.begins, leader.begins = leader.begins, False
        for partition_id in leader.take_forgotten():
            request.forgotten.add(topic_id=partition_id.topic_id, partition=partition_id.partition)
        for partition_id, replica in leader.changed():
            if replica.disk.is_in_a_thread:
                self._leave_out_during(replica.disk.until_whole(), replica)
            elif not replica.disk.must_flush:
                self._name(partition_id, replica, request.partitions.add(), settings.fetch_max_bytes)
        return request

    def _name(self, partition_id: PartitionId, replica: Replica, requested: pb.FetchPartition, max_bytes: int) -> None:
        log = replica.log
        named = Named(replica.leader_epoch, log.log_end_offset, log.log_start_offset)
        requested.topic_id, requested.partition = partition_id
        requested.current_leader_epoch, requested.fetch_offset, requested.log_start_offset = named
        requested.max_bytes = max_bytes
        requested.last_fetched_epoch = log.epochs.latest
        requested.high_watermark = replica.offsets.high_watermark
        requested.has_readers = replica.has_readers
        self._leader.name(partition_id, named)

    async def _on_response(self, response: pb.FetchResponse) -> None:
        """Ten megabytes may come at once where a replica catches up: others have turns between its partitions."""
        slice_ = Slice()
        self._seen_confirmation = response.newest_confirmation
        self._leader.responses = response.session.responses
        for part in response.partitions:
            partition_id = PartitionId(TopicId(part.topic_id), part.partition)
            replica, named = self._leader.get(partition_id), self._leader.named(partition_id)
            if replica is None or named is None or (following := replica.followed_in(named.leader_epoch)) is None:
                continue  # it is followed otherwise since, which the next request says
            try:
                self._on_partition(replica, following, named, part)
            except Exception as error:  # of this partition alone
                self._on_error(replica, error)
            await slice_.rest()
        if not response.HasField("session"):  # a leader that knows none: each fetch names all
            self._leader.begin(self._leader.session_id)

    def _on_partition(self, replica: Replica, following: Following, named: Named, part: pb.PartitionFetched) -> None:
        if part.error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leave_out_during(following.on_out_of_range(part.log_start_offset), replica)
        elif part.error.code:
            raise OttlaError(part.error.code, part.error.message)
        elif part.HasField("diverging_epoch"):
            end = part.diverging_epoch
            leader_end = EpochStart(end.leader_epoch, end.end_offset)
            self._leave_out_during(following.on_diverging(leader_end, part.log_start_offset), replica)
        else:
            response = LeaderResponse(part.records, HighWatermark(part.high_watermark), part.log_start_offset)
            following.on_fetched(named.log_end_offset, response)
            self._in_trouble.discard(replica.id)
            if part.records or replica.log.log_start_offset != named.log_start_offset:
                self._leader.resume(replica.id)
            self._note_lag(replica, part.high_watermark)

    def _note_lag(self, replica: Replica, high_watermark: int) -> None:
        if high_watermark > replica.log.log_end_offset:
            self._lags[replica.id] = high_watermark - replica.log.log_end_offset
        else:
            self._lags.pop(replica.id, None)

    def _leave_out_during(self, work: Coroutine[Any, Any, None], replica: Replica) -> None:
        """Beside the fetches of the others: a truncation waits for the disk, and a thousand may come with one response.

        The partition is named again afterwards. The last one's end ends a fetch that is delayed meanwhile.
        """
        self._leader.rest(replica.id)

        def on_done(done: asyncio.Task[None]) -> None:
            self._truncations.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._on_error(replica, error)
            elif self._leader.get(replica.id) is replica:
                self._in_trouble.discard(replica.id)
                self._leader.resume(replica.id)
            if not self._truncations:
                self._changed.set()

        task = asyncio.create_task(work, name=f"left-out-{replica}")
        self._truncations.add(task)
        task.add_done_callback(on_done)

    def _on_error(self, replica: Replica, error: BaseException) -> None:
        """Leave the partition out for a while; the others continue."""
        if self._leader.get(replica.id) is not replica:
            return  # it was closed, and another may be followed in its place
        known = isinstance(error, OttlaError)
        behind = isinstance(error, OttlaError) and error.code in _BEHIND
        rest_s = _SOON_S if behind else self._replicas.settings.backoff_s
        if not behind and replica.id not in self._in_trouble:  # logged once: a disk may be full for long
            text = "%s can't follow broker %d: %s"
            _log.warning(text, replica, self.leader_id, error, exc_info=None if known else error)
            self._in_trouble.add(replica.id)
        self._leader.rest(replica.id)
        asyncio.get_running_loop().call_later(rest_s, self._resume, replica)

    def _resume(self, replica: Replica) -> None:
        if self._leader.get(replica.id) is replica:
            self._leader.resume(replica.id)
            self._changed.set()
