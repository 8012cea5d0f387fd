"""The replica fetcher copies leaders' logs, over one stream to each broker that leads partitions which this one
follows.

A fetch names partitions of that broker with the offset that comes next. It is a request and a report in one: the leader
learns from it that this replica has everything before that offset, and moves the high watermark. So acks=all waits for
fetches, and the fetcher's first concern is that nothing delays them. A truncation, a flush that fails or an error of
one partition takes this partition out of the fetches for a while, and the others go on.

A stream is a session (machines.followed_leader): its first fetch names all partitions, the others what has changed. The
session must never say something that is over, because the leader counts on it. So a change of role is taken up at once,
a fetch that is delayed at the leader is given up for one that names the change, and another incarnation of this broker
begins another session (rule 11). After a failure another stream begins, and with it another session.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Coroutine, Sized
from typing import Any, Final

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
from ottla_core.records.leader_epochs import EpochStart
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.aio_stream import AioFrameStream
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.retry import Backoff
from ottla_proto import broker_pb2 as pb
from ottla_proto import contracts

_log = logging.getLogger(__name__)

_RESPONSE_LIMIT_S: Final = 30.0
"""Kafka's replica.socket.timeout.ms. The time for which the leader may park the fetch is added to it."""

_SOON_S: Final = 0.05
_GATHERING_S: Final = 0.005
"""How long a change waits for others before a fetch is given up for it: an election changes many partitions at once."""
_BEHIND: Final = frozenset(
    {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
"""Errors that mean that one side has not heard of an election yet. Soon it will, and an operator need not know."""


class Replication:
    """A component: it follows the leaders that `replicas` name."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataFollower,
        registration: RegistrationView,
        tls: InternalTls | None = None,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._registration = registration
        self._tls: Final = tls
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leader_of: dict[PartitionId, int] = {}
        self._unplaced: dict[PartitionId, Replica] = {}
        """Replicas whose leaders this broker's metadata does not know, or no longer knows."""
        self._ending: dict[asyncio.Task[None], None] = {}
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
        """Return the largest number of records that a followed leader's high watermark is ahead, as of its last
        response."""
        return max((fetcher.lag for fetcher in self._fetchers.values()), default=0)

    def _on_role_change(self, replica: Replica) -> None:
        """Follow another leader, or none, at once.

        No fetch that is sent from now on may say that a leader is followed in an epoch that is over.
        """
        if not self._started:
            return
        former = self._fetchers.get(self._leader_of.get(replica.id, NO_LEADER))
        if former is not None and former.leader_id != replica.leader_id:
            former.leave(replica)
            if former.is_idle:
                # An idle stream would keep a session and a connection at a broker that may be gone for good.
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
                # The leader's registration has expired, or is not in this image yet. `_on_image` looks again when
                # brokers change.
                self._unplaced[replica.id] = replica
                return
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(
                leader, self._fetchers, self._replicas, self._registration, self._tls
            )
            fetcher.start()
        self._leader_of[replica.id] = leader_id
        fetcher.follow(replica)

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Follow leaders that have registered, and leaders that have come back at another address."""
        if not self._started or new.brokers is old.brokers:
            return
        for leader_id, fetcher in list(self._fetchers.items()):
            leader = new.brokers.get(leader_id)
            if leader is not None and leader.address != fetcher.address:
                # The old stream may never fail: its address may belong to another process, or to none that responds.
                self._unplaced |= {replica.id: replica for replica in fetcher.followed}
                self._end(leader_id)
        unplaced, self._unplaced = self._unplaced, {}
        for replica in unplaced.values():
            if replica.leader_id is not None:
                self._follow(replica, replica.leader_id)

    def _end(self, leader_id: int) -> None:
        ending = asyncio.create_task(self._fetchers.pop(leader_id).stop())
        # The dict keeps the task alive: asyncio itself holds tasks weakly.
        self._ending[ending] = None
        ending.add_done_callback(self._ending.pop)


class ReplicaFetcher:
    """One leader's partitions, over one stream. `leaders` are all leaders that are followed, including this one."""

    def __init__(
        self,
        leader: Broker,
        leaders: Sized,
        replicas: Replicas,
        registration: RegistrationView,
        tls: InternalTls | None = None,
    ) -> None:
        self.address: Final = leader.address
        self.leader_id: Final = leader.id
        self._leaders: Final = leaders
        self._replicas = replicas
        self._registration = registration
        self._peer: Final = AioPeer(leader.address, client_id=f"replica-{registration.current().broker_id}", tls=tls)
        self._leader: Final[FollowedLeader[Replica]] = FollowedLeader()
        self._lags: dict[PartitionId, int] = {}
        self._in_trouble: set[PartitionId] = set()
        """Partitions whose last fetch failed; that was logged."""
        self._truncations: dict[asyncio.Task[None], None] = {}
        # The newest check in the last response on the present stream (leadership_confirmation). A new stream begins
        # with 0: what an old one said proves nothing of this incarnation of the leader.
        self._seen_confirmation = 0
        self._broker_epoch = UNREGISTERED
        """The incarnation that began the session. The leader counts what was named in it as this one's (rule 11: the
        broker epoch of a fetch equals the registered one)."""
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
        """This is the largest number of records that the leader's high watermark is ahead, as of its last responses."""
        return max(self._lags.values(), default=0)

    def follow(self, replica: Replica) -> None:
        """Follow the replica from now on, or in another leader epoch. A fetch that is delayed is given up for one that
        says so."""
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
        # Only the waiting ends. The thread that truncates finishes its work (`DiskLog.truncate`).
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
                # Logged once for each outage: a broker that is down for an hour would fill the log.
                if not backoff.attempts:
                    _log.warning("can't fetch from broker %d, retrying: %s", self.leader_id, error)
            except Exception:
                _log.exception("fetching from broker %d failed, retrying", self.leader_id)
            finally:
                await stream.close()
            await asyncio.sleep(backoff.next())

    async def round(self, stream: AioFrameStream[pb.FetchRequest, pb.FetchResponse]) -> None:
        """Send one fetch and act on its response. The fetch is given up if there is something else to say."""
        # The event is cleared before the request is built. So a later change ends the wait below, and none is missed.
        self._changed.clear()
        broker_epoch = self._registration.current().epoch
        # Without a registration the leader could not tell this incarnation from a former one, and would refuse it.
        if broker_epoch == UNREGISTERED or self.is_idle:
            await self._until_changed(_SOON_S)
            return
        # What was named by a former incarnation proves nothing of what this one has (KIP-903).
        if broker_epoch != self._broker_epoch:
            self._broker_epoch = broker_epoch
            self._leader.begin(secrets.randbits(64))
        await self._flush_changed()
        request = self._request()
        sent = await stream.send(request, timeout_ms=request.max_wait_ms + int(_RESPONSE_LIMIT_S * 1000))
        limit_s = request.max_wait_ms / 1000 + _RESPONSE_LIMIT_S
        responding = asyncio.create_task(stream.response_to(sent, timeout=limit_s))
        # One event stands for both reasons to go on, so one wait is enough.
        responding.add_done_callback(lambda _: self._changed.set())
        try:
            await self._changed.wait()
            # More changes may follow at once, as in an election, and a response that is near need not be wasted.
            if not responding.done():
                await asyncio.wait({responding}, timeout=_GATHERING_S)
            if responding.done():
                await self._on_response(responding.result())
        finally:
            if responding.cancel():
                await asyncio.gather(responding, return_exceptions=True)
            elif not responding.cancelled():
                # The round was cancelled beside a failed response. Without this asyncio would log the failure as a bug.
                responding.exception()

    async def _until_changed(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _flush_changed(self) -> None:
        """fsync what the next fetch reports, where flush.messages requires it.

        Rule 20: a fetch says what this replica has, and with that policy what it has is what is on disk.
        """
        unflushed = [replica for _, replica in self._leader.changed() if replica.disk.must_flush]
        # A log that can't be flushed is left out. Raised from here, its error would keep every partition of the leader
        # waiting.
        done = await asyncio.gather(*(replica.disk.flushed() for replica in unflushed), return_exceptions=True)
        for replica, error in zip(unflushed, done, strict=True):
            if error is not None:
                self._on_error(replica, error)

    def _request(self) -> pb.FetchRequest:
        """Build the next fetch, without a yield, so that it says how everything is at one moment."""
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
        # These include partitions that are named again below: they are followed in another epoch, and the leader has to
        # drop the old state.
        for partition_id in leader.take_forgotten():
            request.forgotten.add(topic_id=partition_id.topic_id, partition=partition_id.partition)
        for partition_id, replica in leader.changed():
            # Its end is about to move back. A fetch from the end of now would report records that are being truncated.
            if replica.disk.is_in_a_thread:
                self._leave_out_during(replica.disk.until_whole(), replica)
            # What was appended during the flush is named with the next fetch, once it is fsynced too.
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
        """Take in a response, partition by partition.

        Ten megabytes may come at once when a replica catches up, so other tasks have turns between its partitions.
        """
        slice_ = Slice()
        self._seen_confirmation = response.newest_confirmation
        self._leader.responses = response.session.responses
        for part in response.partitions:
            partition_id = PartitionId(TopicId(part.topic_id), part.partition)
            replica, named = self._leader.get(partition_id), self._leader.named(partition_id)
            if replica is None or named is None or (following := replica.followed_in(named.leader_epoch)) is None:
                # The partition is followed in another way by now, or no longer, and the next request says so. Records
                # of the old epoch must not be appended in the new one.
                continue
            try:
                self._on_partition(replica, following, named, part)
            # A failure belongs to this partition alone. The others' records are in the same response.
            except Exception as error:
                self._on_error(replica, error)
            await slice_.rest()
        # The leader is of a release without sessions, so each fetch names all partitions.
        if not response.HasField("session"):
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
            epochs = [EpochStart(each.leader_epoch, each.start_offset) for each in part.epochs]
            high_watermark = HighWatermark(part.high_watermark)
            response = LeaderResponse(part.records, high_watermark, part.log_start_offset, epochs, part.purged_before)
            copying = following.on_fetched(named.log_end_offset, response)
            if copying is not None:
                self._leave_out_during(copying, replica)
                return
            self._in_trouble.discard(replica.id)
            # The leader believes what was named last. Only a partition whose end or start has moved is named again.
            if part.records or replica.log.log_start_offset != named.log_start_offset:
                self._leader.resume(replica.id)
            self._note_lag(replica, part.high_watermark)

    def _note_lag(self, replica: Replica, high_watermark: int) -> None:
        if high_watermark > replica.log.log_end_offset:
            self._lags[replica.id] = high_watermark - replica.log.log_end_offset
        else:
            self._lags.pop(replica.id, None)

    def _leave_out_during(self, work: Coroutine[Any, Any, None], replica: Replica) -> None:
        """Keep the partition out of the fetches while `work` runs, beside the fetches of the others.

        A truncation waits for the disk, and a thousand may come with one response. The partition is named again
        afterwards. The last truncation's end also ends a fetch that is delayed in the meantime, so that none of them
        waits for its time to run out.
        """
        self._leader.rest(replica.id)

        def on_done(done: asyncio.Task[None]) -> None:
            self._truncations.pop(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._on_error(replica, error)
            elif self._leader.get(replica.id) is replica:
                self._in_trouble.discard(replica.id)
                self._leader.resume(replica.id)
            if not self._truncations:
                self._changed.set()

        task = asyncio.create_task(work, name=f"left-out-{replica}")
        self._truncations[task] = None
        task.add_done_callback(on_done)

    def _on_error(self, replica: Replica, error: BaseException) -> None:
        """Leave the partition out for a while. The others continue."""
        if self._leader.get(replica.id) is not replica:
            return  # it was closed, and another object may be followed in its place
        known = isinstance(error, OttlaError)
        behind = isinstance(error, OttlaError) and error.code in _BEHIND
        rest_s = _SOON_S if behind else self._replicas.settings.backoff_s
        # It is logged once until the fetch succeeds again, since a disk may be full for hours.
        if not behind and replica.id not in self._in_trouble:
            text = "%s can't follow broker %d: %s"
            _log.warning(text, replica, self.leader_id, error, exc_info=None if known else error)
            self._in_trouble.add(replica.id)
        self._leader.rest(replica.id)
        asyncio.get_running_loop().call_later(rest_s, self._resume, replica)

    def _resume(self, replica: Replica) -> None:
        if self._leader.get(replica.id) is replica:
            self._leader.resume(replica.id)
            self._changed.set()
