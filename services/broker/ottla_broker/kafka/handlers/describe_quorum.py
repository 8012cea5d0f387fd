"""DescribeQuorum (key 55), versions 0 to 2: who decides on the metadata, in the form of Kafka's quorum (KIP-595).

There is no Raft here: etcd keeps the metadata, and the controllers hold an election there. So the quorum's one voter is
the elected controller, which reports it; no broker knows the standbys. Offsets are revisions of etcd. The brokers are
the observers: each knows its own progress, so all but the broker that responds have -1.

v1 adds the times of the last fetch (KIP-836); v2 directory ids, nodes and error messages (KIP-853).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import DESCRIBE_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import UNTIMED_S, error_fields, forward
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import DescribeQuorumRequest, DescribeQuorumResponse
from ottla_core.model import NO_LEADER
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Topic: TypeAlias = DescribeQuorumResponse.TopicData
_Partition: TypeAlias = DescribeQuorumResponse.PartitionData
_Replica: TypeAlias = DescribeQuorumResponse.ReplicaState
_Node: TypeAlias = DescribeQuorumResponse.Node

METADATA: Final = ("__cluster_metadata", 0)
"""The only partition that may be requested."""

_UNKNOWN: Final = -1
_NODES_FROM: Final = 2
_INT32_MAX: Final = 2**31 - 1


async def handle(backend: Backend, request: DescribeQuorumRequest, context: KafkaContext) -> DescribeQuorumResponse:
    try:
        context.access.check(Operation.DESCRIBE)
        quorum = await forward(
            backend,
            Controller.DESCRIBE_QUORUM,
            pb.DescribeQuorumRequest(),
            principal=context.caller.principal,
            limit_s=UNTIMED_S,
        )
    except OttlaError as error:
        return DescribeQuorumResponse(**error_fields(error), topics=[], nodes=[])
    named, time_slice = dict[tuple[str, int], None](), Slice()
    by_topic: dict[str, list[_Partition]] = {}
    for topic in request.topics:
        await time_slice.rest()
        by_topic[topic.topic_name] = []
        named.update(dict.fromkeys((topic.topic_name, p.partition_index) for p in topic.partitions))
    await sliced(lambda entry: by_topic[entry[0]].append(_partition(backend, quorum, entry)), named)
    topics = await sliced(lambda entry: _Topic(topic_name=entry[0], partitions=entry[1]), by_topic.items())
    nodes = [_node(quorum)] if context.version >= _NODES_FROM else []
    return DescribeQuorumResponse(error_code=0, error_message=None, topics=topics, nodes=nodes)


def _partition(backend: Backend, quorum: pb.DescribeQuorumResponse, named: tuple[str, int]) -> _Partition:
    if named != METADATA:
        text = f"the quorum is that of {METADATA[0]}-{METADATA[1]} alone"
        error = error_fields(OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
        return _reported(named[1], error, leader_id=NO_LEADER, leader_epoch=_UNKNOWN, high_watermark=_UNKNOWN)
    image = backend.image
    leader = _replica(quorum.leader_id, quorum.revision, _UNKNOWN, backend.clock.wall_ms())
    followed = {backend.node_id: image.revision}
    observers = [_replica(n, followed.get(n, _UNKNOWN), _UNKNOWN, _UNKNOWN) for n in sorted(image.brokers)]
    return _reported(
        named[1],
        {"error_code": 0, "error_message": None},
        leader_id=quorum.leader_id,
        leader_epoch=min(quorum.epoch, _INT32_MAX),
        high_watermark=quorum.revision,
        current_voters=[leader],
        observers=observers,
    )


def _node(quorum: pb.DescribeQuorumResponse) -> _Node:
    """Return where the controller is reached, which is not by Kafka's protocol."""
    host, port = HostPort.parse(quorum.address)
    listener = DescribeQuorumResponse.Listener(name="GRPC", host=host, port=port)
    return _Node(node_id=quorum.leader_id, listeners=[listener])


def _reported(number: int, error: Mapping[str, Any], **fields: Any) -> _Partition:
    options = {"current_voters": [], "observers": []} | fields
    return _Partition(partition_index=number, **error, **options)


def _replica(number: int, end_offset: int, fetched_ms: int, caught_up_ms: int) -> _Replica:
    return _Replica(
        replica_id=number,
        log_end_offset=end_offset,
        last_fetch_timestamp=fetched_ms,
        last_caught_up_timestamp=caught_up_ms,
    )


API: Final = control(
    DescribeQuorumRequest,
    (0, 2),
    handle,
    needs=DESCRIBE_CLUSTER,
    errors=error_codes.Errors(
        "DescribeQuorumResponse; KIP-595",
        error_codes.CONTROLLER | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        instead=error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.DESCRIBE_QUORUM,
)
