"""FindCoordinator (key 10), versions 0 to 6: a live broker, which forwards to the coordinator behind it.

As in Kafka it is the leader of the shard's partition: so clients spread over the brokers as groups do over shards.
v1 adds the key type (KIP-98); v4 several keys at once (KIP-699).
"""

from __future__ import annotations

from typing import Any, Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import text_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.peers.coordinator_peers import not_available
from ottla_core.cluster.image import Broker, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse
from ottla_core.model import SHARD_TOPICS, PartitionId
from ottla_core.routing import GROUP, TXN
from ottla_core.security.resource import ResourceType
from ottla_proto.common_pb2 import ShardNumbers
from ottla_proto.operation import Operation

_SEVERAL_FROM: Final = 4
_KINDS: Final = {0: GROUP, 1: TXN}
_RESOURCES: Final = {GROUP: ResourceType.GROUP, TXN: ResourceType.TRANSACTIONAL_ID}


async def handle(backend: Backend, request: FindCoordinatorRequest, context: KafkaContext) -> FindCoordinatorResponse:
    version, key_type = context.version, request.key_type
    if version < _SEVERAL_FROM:
        return FindCoordinatorResponse(**_reported(backend, request.key, key_type, context))

    def find(key: str) -> FindCoordinatorResponse.Coordinator:
        fields = _reported(backend, key, key_type, context)
        return FindCoordinatorResponse.Coordinator(key=key, **fields)

    found = await sliced(find, dict.fromkeys(request.coordinator_keys))
    return FindCoordinatorResponse(coordinators=found)


def _reported(backend: Backend, key: str, key_type: int, context: KafkaContext) -> dict[str, Any]:
    try:
        kind = _kind(key_type)
        context.access.check(Operation.DESCRIBE, _RESOURCES[kind], key)
        broker = _find(backend, key, kind)
        address = backend.addresses.advertised(broker, context.caller)
        if address is None:
            raise not_available(kind)
    except OttlaError as error:
        no_broker = {"node_id": -1, "host": "", "port": -1}
        return no_broker | {"error_code": int(error.code), "error_message": text_of(error)}
    return {"node_id": broker.id, "host": address.host, "port": address.port, "error_code": 0, "error_message": None}


def _kind(key_type: int) -> str:
    kind = _KINDS.get(key_type)
    if kind is None:
        raise OttlaError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    return kind


def _find(backend: Backend, key: str, kind: str) -> Broker:
    backend.coordinators.owner(kind, key)
    shard = backend.image.shard_of(kind, key)
    found = None if shard is None else spokesman(backend, kind, shard)
    if found is None:
        raise not_available(kind)
    return backend.image.brokers[found]


def spokesman(backend: Backend, kind: str, shard: int) -> int | None:
    """Return the id of the broker through which Kafka clients reach a shard: its partition's leader, or else any live
    broker."""
    image = backend.image
    leader = _leader(image, kind, shard)
    live = image.live_brokers()
    if leader in live:
        return leader
    return sorted(live)[shard % len(live)] if live else None


def spoken_for(backend: Backend, kind: str) -> ShardNumbers:
    """Return the shards that Kafka clients reach through this broker, and how many shards there are."""
    topic = backend.image.topics.get(SHARD_TOPICS[kind])
    total = 0 if topic is None else topic.partition_count
    numbers = [shard for shard in range(total) if spokesman(backend, kind, shard) == backend.node_id]
    return ShardNumbers(numbers=numbers, total=total)


def _leader(image: ClusterImage, kind: str, shard: int) -> int | None:
    topic = image.topics.get(SHARD_TOPICS[kind])
    partition = None if topic is None else image.partitions.get(PartitionId(topic.id, shard))
    return None if partition is None else partition.leader


API: Final = control(
    FindCoordinatorRequest,
    (0, 6),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
    errors=error_codes.Errors(
        "schema (v5); FindCoordinatorResponse; KIP-890",
        error_codes.GROUP | {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
        error_codes.abortable(5),
    ),
)
