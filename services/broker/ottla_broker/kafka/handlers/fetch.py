"""Fetch (key 1), versions 4 to 18: it may wait for records (rules 55 to 57, 68).

v5 adds the log start offset (KIP-107); v7 sessions (KIP-227); v9 the leader epoch (KIP-320); v11 racks (KIP-392); v12
tags, one with the new leader; v13 names topics by id (KIP-516); v15 moves the replica id into a tag (KIP-903); v16 adds
the endpoints of new leaders (KIP-951). v17 and v18 add tags of followers, which are not served here.
"""

from __future__ import annotations

import time
from typing import Final

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import needs, topic_refused
from ottla_broker.kafka.backend import Backend, known_epoch
from ottla_broker.kafka.errors import unknown_topic
from ottla_broker.kafka.fetch_sessions import Session
from ottla_broker.kafka.handling import decoded
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire.fetch_request import FetchRequest, FetchResponsePartition, RequestedPartition
from ottla_broker.kafka.wire.frames import KafkaContext, Parts
from ottla_broker.kafka.wire.leaders import NewLeaders
from ottla_broker.replication.fetch import (
    MAX_RESPONSE_BYTES,
    Consumers,
    FetchLimits,
    FetchResult,
    PartitionFetch,
    closest_to,
    fetch_due,
)
from ottla_broker.replication.response_memory import ResponseRoom
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.kafka import messages
from ottla_core.model import PartitionId, TopicId
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

SPEED: Final = 8
"""How many times faster reading by hand is than the codec library. 600 partitions take some milliseconds."""
_NOWHERE: Final = PartitionId(TopicId(bytes(16)), -1)


def read(context: KafkaContext) -> FetchRequest:
    return fetch_wire.read(context.body, context.version)


async def handle(backend: Backend, request: FetchRequest, context: KafkaContext) -> Parts:
    version, leaders = context.version, NewLeaders(backend, context.caller)
    if request.replica_id >= 0:
        rejected = FetchResult(_NOWHERE, error=_no_follower(request.replica_id))
        parts = [FetchResponsePartition(partition, rejected) for partition in request.partitions]
        return fetch_wire.write(version, parts, leaders, isolation=request.isolation)
    try:
        with backend.sessions.fetching(
            request, by_id=version >= fetch_wire.TOPIC_ID_FROM, now=time.monotonic()
        ) as session:
            session.on_access(context.access.revision)
            looked = await fetch_due(
                session,
                _Reads(backend, context.access),
                _consumers(backend, version, request),
                _limits(request, session, context.caller.room),
                whole=session.is_whole,
            )
            slice_ = Slice()
            response = session.response(looked)
    except OttlaError as error:
        return fetch_wire.write(version, (), leaders, isolation=request.isolation, error_code=error.code)
    await slice_.rest()
    return fetch_wire.write(version, response, leaders, isolation=request.isolation, session_id=session.id)


def _limits(request: FetchRequest, session: Session, room: ResponseRoom) -> FetchLimits:
    """Return the limits. Without partitions there is nothing to wait for: a client fetches in this way when it closes,
    to end its session."""
    max_wait_ms = max(0, request.max_wait_ms) if session.size else 0
    max_bytes = min(max(0, request.max_bytes), MAX_RESPONSE_BYTES)
    return FetchLimits(max_wait_ms / 1000, min(request.min_bytes, max_bytes), max_bytes, room)


class _Reads:
    """What one fetch reads. ACLs may change while it waits, so each look uses the latest ACLs."""

    def __init__(self, backend: Backend, access: Access) -> None:
        self._backend: Final = backend
        self._access = access

    def __call__(self, request: RequestedPartition) -> PartitionFetch | FetchResult:
        """Return the read to do, or the result for a topic that the client may not read, or that does not exist."""
        backend, access = self._backend, self._access
        if access.is_limited:
            access = self._access = access.as_of_now()
            refused = topic_refused(access, backend.image, Operation.READ, request.topic)
            if refused is not None:
                return FetchResult(_NOWHERE, error=refused, completes_fetch=True)
        partition_id = _id_of(backend, request)
        if partition_id is None:
            return FetchResult(_NOWHERE, error=unknown_topic(str(request.topic)), completes_fetch=True)
        return PartitionFetch(
            partition_id, known_epoch(request.leader_epoch), request.offset, max(0, request.max_bytes)
        )


def _id_of(backend: Backend, request: RequestedPartition) -> PartitionId | None:
    if isinstance(request.topic, str):
        return backend.id_of(request.topic, request.number)
    return PartitionId(request.topic, request.number)


def _consumers(backend: Backend, version: int, request: FetchRequest) -> Consumers:
    """Return the consumers that a request stands for. From the versions with racks on, any replica responds, and a
    leader may name a nearer one (KIP-392). The protocol does not say whether a leader has sent the consumer here."""
    closest = closest_to(request.rack, backend.image, backend.node_id)
    return Consumers(
        backend.replicas.table,
        closest,
        any_replica=version >= fetch_wire.RACK_FROM,
        read_committed=request.isolation == fetch_wire.READ_COMMITTED,
    )


def _no_follower(replica_id: int) -> OttlaError:
    return OttlaError(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        f"replica {replica_id} sent a fetch to a client listener, which does not serve replicas",
        hint="brokers replicate over their own gRPC contract",
    )


API: Final = Api(
    messages.FetchRequest,
    (4, 18),
    decoded(read, handle, speed=SPEED),
    # Fetches with a replica id are refused, whatever rights a client has.
    needs=needs((Operation.READ, ResourceType.TOPIC)),
    errors=fetch_wire.ERRORS,
    most_elements=fetch_wire.MOST_PARTITIONS,
)
