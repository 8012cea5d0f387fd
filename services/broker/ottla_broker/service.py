"""The broker's contract has one method per RPC. Protobuf stops at this module: nothing behind it knows a message.

A method does three things: it translates the request, has the part of the broker that owns the matter decide, and
translates the result. It decides nothing itself.

*Isolation:* an error of one partition stands beside the results of the others, and the request as a whole fails
only if it could not be understood. Long requests rest between their elements, so that no client holds the loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from ottla_broker.machines.epochs import NO_EPOCH
from ottla_broker.machines.follower_session import Followed
from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.partition_requests.shard_append import append_to_shard
from ottla_broker.partition_requests.transaction_markers import MarkersToWrite, check_markers, write_markers
from ottla_broker.peers.registration_view import RegistrationView
from ottla_broker.replication.fetch import (
    MAX_RESPONSE_BYTES,
    Consumers,
    FetchLimits,
    FetchResult,
    PartitionFetch,
    fetch,
)
from ottla_broker.replication.follower_epochs import FollowerEpochs
from ottla_broker.replication.follower_fetch import FollowerFetch, fetch_as_follower
from ottla_broker.replication.leadership_confirmation import check_fence
from ottla_broker.replication.replicas import Replicas
from ottla_broker.storage.log_dir import LogDir
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.control import EndTransactionMarker
from ottla_core.records.fence import ShardFence
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import error_message
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto import broker_pb2 as pb
from ottla_proto.common_pb2 import Error, TxnMarker

_APPLIED_S: Final = 3.0
"""How long a request waits for this broker to apply the metadata that it depends on."""

_LOOK_UPS_AT_ONCE: Final = 2
"""How many lookups of one request run at once, so that a long request leaves threads to others."""
_LEADER_CHANGED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class BrokerService:
    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataFollower,
        log_dir: Callable[[], LogDir],
        follower_epochs: FollowerEpochs,
        registration: RegistrationView,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._log_dir = log_dir
        self._follower_epochs = follower_epochs
        self._registration = registration

    async def fetch(self, request: pb.FetchRequest, context: RequestContext) -> pb.FetchResponse:
        """Respond to the fetch of a coordinator, which reads its shard's log or how far a group is behind."""
        # A follower's fetch reads to the log's end and moves the high watermark. It is a method of its own, which
        # checks who asks.
        if request.HasField("follower"):
            message = "a follower sent a consumer fetch, which reads only up to the high watermark"
            raise OttlaError(ErrorCode.INVALID_REQUEST, message, hint="send the fetch with ReplicaFetch")
        if request.HasField("session"):
            message = "a coordinator's fetch names all that it wants, and has no session"
            raise OttlaError(ErrorCode.INVALID_REQUEST, message, hint="send the fetch without a session")
        consumers = Consumers(self._replicas.table, None, any_replica=False, read_committed=request.read_committed)
        limits = FetchLimits(request.max_wait_ms / 1000, *_bounds_of(request))
        named = (_request_of(p, request) for p in request.partitions)
        return self._add_fetched(pb.FetchResponse(), await fetch(named, consumers, limits))

    async def replica_fetch(self, request: pb.FetchRequest, context: RequestContext) -> pb.FetchResponse:
        """Respond to a follower's fetch.

        It is a method of its own, so that consumers that are slow to take their responses do not use up the memory of
        its frames: acks=all waits for these fetches.
        """
        # A fetch moves the high watermark, so only the registered incarnation counts (rule 11), and only with the
        # secret of its registration: broker epochs are public, and a forged fetch would commit records with a single
        # copy.
        self._follower_epochs.check(request.follower, context)
        fetched = await fetch_as_follower(_follower_fetch_of(request), self._replicas.table, context.stream)
        session = pb.FetchSession(id=request.follower.session.id, responses=fetched.responses)
        response = pb.FetchResponse(newest_confirmation=fetched.newest_confirmation, session=session)
        return self._add_fetched(response, fetched.partitions)

    def _add_fetched(self, response: pb.FetchResponse, fetched: Iterable[FetchResult]) -> pb.FetchResponse:
        for part in fetched:
            result = response.partitions.add(
                topic_id=part.id.topic_id,
                partition=part.id.partition,
                high_watermark=part.high_watermark,
                log_start_offset=part.log_start_offset,
                records=part.records,
                last_stable_offset=part.last_stable_offset,
                aborted=[pb.AbortedTransaction(producer_id=a[0], first_offset=a[1]) for a in part.aborted],
                epochs=[pb.EpochStart(leader_epoch=e.epoch, start_offset=e.start_offset) for e in part.epochs],
                purged_before=part.purged_before,
            )
            if part.error is not None:
                self._describe(result, part.id, part.error)
            if part.diverging is not None:
                end = part.diverging
                result.diverging_epoch.CopyFrom(pb.EpochEnd(leader_epoch=end.epoch, end_offset=end.start_offset))
        return response

    async def list_offsets(self, request: pb.ListOffsetsRequest, context: RequestContext) -> pb.ListOffsetsResponse:
        """Look offsets up by time. A partition may be requested several times: its start, its end, and so on."""
        check_no_repeats(
            (partition.topic_id, partition.partition, partition.timestamp_ms) for partition in request.partitions
        )
        find = partial(self._list_offset, read_committed=request.read_committed)
        return pb.ListOffsetsResponse(partitions=await few_at_once(find, request.partitions, at_once=_LOOK_UPS_AT_ONCE))

    async def _list_offset(self, requested: pb.ListOffsetsPartition, *, read_committed: bool) -> pb.PartitionOffset:
        response = pb.PartitionOffset(
            topic_id=requested.topic_id, partition=requested.partition, offset=-1, timestamp_ms=-1
        )
        try:
            leading = self._replicas.table.leading(_id_of(requested), _epoch_of(requested))
            found = await leading.offset_for_time(requested.timestamp_ms, read_committed=read_committed)
        except OttlaError as error:
            response.error.CopyFrom(error_message(error))
            return response
        # It is the epoch in which the lookup was made, so that the client can notice a change of leader after it
        # (KIP-320).
        response.leader_epoch = leading.epoch
        if found is not None:
            response.offset, response.timestamp_ms = found.offset, found.timestamp_ms
        return response

    async def log_ends(self, request: pb.LogEndsRequest, context: RequestContext) -> pb.LogEndsResponse:
        # The controller asks by what it has decided: a broker that has not applied it yet may still lead the partition,
        # and its log would grow after it was reported.
        await self._replicas.until(lambda image: image.revision >= request.revision, timeout=_APPLIED_S)
        # The incarnation belongs to the report, because a broker that restarts after it may have lost the end of its
        # log.
        response = pb.LogEndsResponse(broker_epoch=self._registration.current().epoch)
        for requested in request.partitions:
            end = await self._replicas.log_end(_id_of(requested))
            if end is not None:
                # A log that began again on an empty disk is no witness of what was committed, however it compares (rule
                # 21).
                sound = self._log_dir().has_all_of(_id_of(requested))
                response.partitions.add(
                    topic_id=requested.topic_id,
                    partition=requested.partition,
                    last_epoch=end.last_epoch,
                    log_end_offset=end.offset,
                    sound=sound,
                    latest_epoch=end.latest_epoch,
                )
        return response

    async def shard_append(self, request: pb.ShardAppendRequest, context: RequestContext) -> pb.ShardAppendResponse:
        response = pb.ShardAppendResponse(base_offset=-1)
        try:
            replica = self._replicas.table.find(_id_of(request))
            leading = replica.led_in(request.leader_epoch)
            try:
                response.base_offset = await append_to_shard(
                    leading,
                    request.kind,
                    ShardFence(request.shard_epoch, request.incarnation),
                    request.expected_next_offset,
                    request.records,
                    timeout_s=request.timeout_ms / 1000,
                )
            finally:
                # These are sent beside an error, too: an owner that was refused learns from them where the log ends,
                # and who has fenced it.
                response.high_watermark = replica.offsets.high_watermark
                response.log_end_offset = replica.log.log_end_offset
                response.current_leader_epoch, stored = replica.leader_epoch, replica.log.fence
                if stored.exists:
                    response.current_fence.CopyFrom(
                        pb.ShardFence(shard_epoch=stored.fence[0], incarnation=stored.fence[1])
                    )
        except OttlaError as error:
            self._describe(response, _id_of(request), error)
        return response

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, context: RequestContext
    ) -> pb.WriteTxnMarkersResponse:
        requested = [
            MarkersToWrite(_end_of(each.marker), list(map(_id_of, each.partitions))) for each in request.markers
        ]
        check_markers(requested)
        leading = partial(self._replicas.table.leading, known_epoch=None)
        written = await write_markers(leading, requested, timeout_s=request.timeout_ms / 1000)
        return pb.WriteTxnMarkersResponse(
            markers=[
                pb.MarkerWritten(partitions=[Error() if e is None else error_message(e) for e in errors])
                for errors in written
            ]
        )

    async def check_fence(self, request: pb.CheckFenceRequest, context: RequestContext) -> pb.CheckFenceResponse:
        response = pb.CheckFenceResponse()
        owner = ShardFence(request.shard_epoch, request.incarnation)
        deadline = asyncio.get_running_loop().time() + request.timeout_ms / 1000
        try:
            replica = self._replicas.table.find(_id_of(request))
            response.high_watermark = await check_fence(
                replica, request.leader_epoch, owner, request.next_offset, deadline
            )
        except OttlaError as error:
            self._describe(response, _id_of(request), error)
        return response

    def _describe(
        self,
        response: pb.PartitionFetched | pb.ShardAppendResponse | pb.CheckFenceResponse,
        partition_id: PartitionId,
        error: OttlaError,
    ) -> None:
        """Put the error in band. If another broker leads the partition, say which one, so that the client need not
        ask."""
        response.error.CopyFrom(error_message(error))
        if error.code in _LEADER_CHANGED:
            image = self._metadata.image
            partition = image.partitions.get(partition_id)
            if partition is not None and (broker := image.brokers.get(partition.leader)) is not None:
                leader = pb.Leader(
                    broker_id=partition.leader, leader_epoch=partition.leader_epoch, address=broker.address
                )
                response.current_leader.CopyFrom(leader)


class _OfPartition(Protocol):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partition(self) -> int: ...


def _id_of(requested: _OfPartition) -> PartitionId:
    return PartitionId(TopicId(requested.topic_id), requested.partition)


def _end_of(marker: TxnMarker) -> TransactionEnd:
    decided = EndTransactionMarker(marker.committed, marker.coordinator_epoch)
    raises_epochs = marker.transaction_version >= TRANSACTIONS_V2
    return TransactionEnd(marker.producer.id, marker.producer.epoch, decided, raises_epochs)


def _request_of(requested: pb.FetchPartition, request: pb.FetchRequest) -> PartitionFetch:
    return PartitionFetch(
        _id_of(requested),
        _epoch_of(requested),
        requested.fetch_offset,
        _most_bytes_of(requested, request),
    )


def _bounds_of(request: pb.FetchRequest) -> tuple[int, int]:
    """Return the fewest bytes that are worth a response, and the most that one may have.

    A client may wait for more bytes than a response can hold. These would never be there, so the minimum is bounded
    too.
    """
    max_bytes = min(request.max_bytes or MAX_RESPONSE_BYTES, MAX_RESPONSE_BYTES)
    return min(request.min_bytes, max_bytes), max_bytes


def _most_bytes_of(requested: pb.FetchPartition, request: pb.FetchRequest) -> int:
    return requested.max_bytes or request.max_bytes or MAX_RESPONSE_BYTES


def _follower_fetch_of(request: pb.FetchRequest) -> FollowerFetch:
    """Translate a follower's fetch. A follower that knows no sessions begins one with each request, and names all
    partitions."""
    follower = request.follower
    return FollowerFetch(
        follower.broker_id,
        follower.broker_epoch,
        follower.seen_confirmation,
        follower.session.id,
        follower.session.responses,
        follower.session.begins or not follower.HasField("session"),
        [_followed_of(requested, request) for requested in request.partitions],
        [_id_of(forgotten) for forgotten in request.forgotten],
        request.max_wait_ms / 1000,
        *_bounds_of(request),
    )


def _followed_of(requested: pb.FetchPartition, request: pb.FetchRequest) -> Followed:
    return Followed(
        _id_of(requested),
        _epoch_of(requested),
        requested.fetch_offset,
        _most_bytes_of(requested, request),
        requested.last_fetched_epoch if requested.HasField("last_fetched_epoch") else NO_EPOCH,
        requested.high_watermark,
        requested.log_start_offset,
        requested.has_readers or not request.follower.HasField("session"),
    )


def check_no_repeats(requested: Iterable[tuple[object, ...]]) -> None:
    """Raise INVALID_REQUEST if an element is named twice. Each is work, and a short request could ask for hours of
    it."""
    if any(count > 1 for count in Counter(requested).values()):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST, "the request names a partition twice", hint="name each partition once"
        )


def _epoch_of(requested: pb.FetchPartition | pb.ListOffsetsPartition) -> int | None:
    return requested.current_leader_epoch if requested.HasField("current_leader_epoch") else None
