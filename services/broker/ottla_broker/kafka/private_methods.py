"""The methods that ottla's own clients call through the private API, and the service for each of them (docs/adr/0028).

The table is the whole list. It has the calls of clients that Kafka's messages can't express. Calls to mirrors are among
them, so clients need no other address than a broker's. Calls between services are not in it, with one exception: an
administrator writes a marker in a group's shard to end a transaction that hangs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from ottla_broker.kafka.authorization.private_needs import (
    ALTER,
    DESCRIBE,
    DESCRIBE_GROUP,
    PREPARE_ID,
    READ_GROUP,
    WRITE_ID,
    NamedNeed,
    ShownTopics,
    of_offsets,
    of_topic,
)
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import forward
from ottla_broker.kafka.forwarding.coordinator_calls import call_owner
from ottla_broker.partition_requests.record_import import import_records
from ottla_broker.peers.coordinator_peers import not_available
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once
from ottla_core.model import NO_OWNER, PartitionId, TopicId
from ottla_core.routing import GROUP, TXN
from ottla_proto import broker_pb2, group_pb2, mirror_pb2
from ottla_proto.broker_pb2 import EpochStart
from ottla_proto.common_pb2 import ShardsRequest, ShardsResponse
from ottla_proto.contracts import ClientCalls, Controller, Group, Method, Mirror, Txn
from ottla_proto.operation import Operation

SMALL_BYTES: Final = 128 * 1024
"""The limit for a request that names one group or transactional id. As a string of Kafka's, such a name has up to 32
KiB."""

_COMMIT_BYTES: Final = 512 * 1024
"""The limit for a commit. Clients send larger ones in parts (`ottla_core.rpc.parts`)."""

_MIRROR_BYTES: Final = 512 * 1024
"""The limit for a request to a mirror, which may name many positions or groups."""

_LARGEST_BYTES: Final = 16 * 1024 * 1024
_OWNERS_AT_ONCE: Final = 16


class PrivateCall(NamedTuple):
    """It says who calls, and how many seconds the call may take."""

    principal: str
    limit_s: float


_Serve = Callable[[Backend, Any, PrivateCall], Awaitable[Any]]


class PrivateMethod(NamedTuple):
    """A private method. `serve` gets the request and what is known of the call. A client needs the rights `needs` for
    the request, and is shown only those topics of the response that it may describe. A request of more than `max_bytes`
    is not decoded."""

    method: Method[Any, Any]
    serve: _Serve
    needs: tuple[NamedNeed, ...]
    shows: ShownTopics | None = None
    max_bytes: int = SMALL_BYTES


def _by_controller(method: Method[Any, Any], *needs: NamedNeed) -> PrivateMethod:
    async def serve(backend: Backend, request: Any, call: PrivateCall) -> Any:
        return await forward(backend, method, request, principal=call.principal, limit_s=call.limit_s)

    return PrivateMethod(method, serve, needs)


def _by_owner(
    kind: str, method: Method[Any, Any], key: Callable[[Any], str], *needs: NamedNeed, shows: ShownTopics | None = None
) -> PrivateMethod:
    """Return a method that the owner of its key's shard serves."""

    async def serve(backend: Backend, request: Any, call: PrivateCall) -> Any:
        return await call_owner(backend, kind, key(request), method, request, call.limit_s)

    return PrivateMethod(method, serve, needs, shows)


def _by_mirror(method: Method[Any, Any], *needs: NamedNeed, shows: ShownTopics | None = None) -> PrivateMethod:
    async def serve(backend: Backend, request: Any, call: PrivateCall) -> Any:
        return await backend.mirrors.call(method, request, call.limit_s)

    return PrivateMethod(method, serve, needs, shows, _MIRROR_BYTES)


async def _mirror_status(
    backend: Backend, request: mirror_pb2.MirrorStatusRequest, call: PrivateCall
) -> mirror_pb2.MirrorStatusResponse:
    return await backend.mirrors.status(request, call.limit_s)


def _group(request: Any) -> str:
    group: str = request.group
    return group


def _transactional_id(request: Any) -> str:
    transactional_id: str = request.transactional_id
    return transactional_id


async def _shards(
    backend: Backend,
    request: ShardsRequest,
    call: PrivateCall,
    *,
    kind: str,
    method: Method[ShardsRequest, ShardsResponse],
) -> ShardsResponse:
    """Return the shards as their owners report them, and also those without an owner."""
    image = backend.image
    owners = {number: image.owner_of(kind, number) for of_kind, number in sorted(image.shards) if of_kind == kind}
    addresses = {owner.address: owner for owner in owners.values() if owner is not None}
    ask = partial(backend.coordinators.ask, method=method, request=request, timeout=call.limit_s)
    responses = await few_at_once(ask, list(addresses.values()), at_once=_OWNERS_AT_ONCE)
    all_shards = ShardsResponse()
    for response in responses:
        if response.error.code:
            return response
        all_shards.shards.extend(response.shards)
    for number, owner in owners.items():
        if owner is None:
            all_shards.shards.add(shard=number, phase="unowned", coordinator=NO_OWNER)
    return all_shards


async def _commit_first(
    backend: Backend, request: group_pb2.CommitOffsetsRequest, call: PrivateCall
) -> group_pb2.CommitOffsetsResponse:
    if not request.only_first or request.HasField("transaction"):
        text = "this API takes only a commit that leaves committed offsets as they are"
        raise OttlaError(ErrorCode.INVALID_REQUEST, text, hint="send any other one as Kafka's OffsetCommit")
    return await call_owner(backend, GROUP, request.group, Group.COMMIT_OFFSETS, request, call.limit_s)


async def _shard_marker(
    backend: Backend, request: group_pb2.WriteShardMarkersRequest, call: PrivateCall
) -> group_pb2.WriteShardMarkersResponse:
    shards = {shard for marker in request.markers for shard in marker.shards}
    if len(shards) != 1:
        text = f"the request names {len(shards)} shards"
        raise OttlaError(ErrorCode.INVALID_REQUEST, text, hint="send a request for each shard")
    (shard,) = shards
    owner = backend.image.owner_of(GROUP, shard)
    if owner is None:
        raise not_available(GROUP)
    return await backend.coordinators.ask(owner, Group.WRITE_TXN_MARKERS, request, call.limit_s)


async def _import(
    backend: Backend, request: broker_pb2.ImportRecordsRequest, call: PrivateCall
) -> broker_pb2.ImportRecordsResponse:
    next_offset = await import_records(
        backend.replicas.table.find(PartitionId(TopicId(request.topic_id), request.partition)),
        request.expected_next_offset,
        request.records,
        request.log_start_offset,
        timeout_s=min(call.limit_s, request.timeout_ms / 1000),
    )
    return broker_pb2.ImportRecordsResponse(next_offset=next_offset)


async def _replica_epochs(
    backend: Backend, request: broker_pb2.ReplicaEpochsRequest, call: PrivateCall
) -> broker_pb2.ReplicaEpochsResponse:
    replica = backend.replicas.table.find(PartitionId(TopicId(request.topic_id), request.partition))
    start, _, high_watermark = replica.offsets.positions
    return broker_pb2.ReplicaEpochsResponse(
        epochs=[EpochStart(leader_epoch=epoch, start_offset=at) for epoch, at in replica.log.epochs.entries],
        log_start_offset=start,
        high_watermark=high_watermark,
    )


_TABLE: Final = (
    PrivateMethod(
        ClientCalls.IMPORT_RECORDS,
        _import,
        # This method can raise the log start offset, as DeleteRecords does.
        (of_topic(Operation.WRITE), of_topic(Operation.DELETE)),
        max_bytes=_LARGEST_BYTES,
    ),
    PrivateMethod(ClientCalls.REPLICA_EPOCHS, _replica_epochs, (of_topic(Operation.DESCRIBE),)),
    _by_controller(Controller.DECLARE_RESTORED, ALTER),
    PrivateMethod(
        Group.COMMIT_OFFSETS, _commit_first, (READ_GROUP, of_offsets(Operation.READ)), max_bytes=_COMMIT_BYTES
    ),
    _by_owner(GROUP, Group.EXPLAIN_GROUP, _group, DESCRIBE_GROUP),
    _by_owner(GROUP, Group.LAG, _group, DESCRIBE_GROUP, shows=ShownTopics("partitions", "topic")),
    PrivateMethod(Group.SHARDS, partial(_shards, kind=GROUP, method=Group.SHARDS), (DESCRIBE,)),
    PrivateMethod(Group.WRITE_TXN_MARKERS, _shard_marker, (ALTER,)),
    _by_owner(TXN, Txn.PREPARE, _transactional_id, WRITE_ID, PREPARE_ID),
    _by_owner(TXN, Txn.FORGET, _transactional_id, WRITE_ID),
    PrivateMethod(Txn.SHARDS, partial(_shards, kind=TXN, method=Txn.SHARDS), (DESCRIBE,)),
    PrivateMethod(Mirror.MIRROR_STATUS, _mirror_status, (DESCRIBE,)),
    _by_mirror(
        Mirror.TRANSLATE_OFFSETS,
        of_offsets(Operation.DESCRIBE),
        shows=ShownTopics("offsets", "copy", is_ordered=True),
    ),
    _by_mirror(Mirror.GROUP_POSITIONS, DESCRIBE_GROUP, shows=ShownTopics("positions", "copy")),
    _by_mirror(Mirror.PAUSE_FLOW, ALTER),
    _by_mirror(Mirror.FAILOVER, ALTER),
    _by_mirror(Mirror.FAILBACK, ALTER),
)

PRIVATE_METHODS: Final[Mapping[str, PrivateMethod]] = {each.method.path: each for each in _TABLE}
"""The private methods by their paths."""
