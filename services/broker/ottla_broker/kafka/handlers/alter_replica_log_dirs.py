"""AlterReplicaLogDirs (key 34), versions 1 to 2: a replica moves to another directory of its broker (KIP-113).

A broker has one directory here, so there is none to move to. Versions differ in encoding only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import ALTER_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from ottla_core.model import PartitionId
from ottla_proto.operation import Operation

_Topic: TypeAlias = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Partition: TypeAlias = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


async def handle(
    backend: Backend, request: AlterReplicaLogDirsRequest, context: KafkaContext
) -> AlterReplicaLogDirsResponse:
    """Respond to a request. A partition that is named for several directories is answered for the last one, as in
    Kafka."""
    refused = context.access.refused(Operation.ALTER)
    own = backend.log_dir().sizes().path
    local = {replica.id for replica in backend.replicas.table.all()}
    requested = {(topic.name, n): item.path for item in request.dirs for topic in item.topics for n in topic.partitions}
    by_topic: dict[str, list[_Partition]] = defaultdict(list)

    def respond(entry: tuple[tuple[str, int], str]) -> None:
        (topic, number), path = entry
        if refused is not None:
            code = refused.code
        else:
            code = _code(backend, topic, number, local) if path == own else ErrorCode.LOG_DIR_NOT_FOUND
        by_topic[topic].append(_Partition(partition_index=number, error_code=int(code)))

    await sliced(respond, requested.items())
    results = [_Topic(topic_name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return AlterReplicaLogDirsResponse(results=results)


def _code(backend: Backend, topic: str, number: int, local: Set[PartitionId]) -> ErrorCode:
    """Return the code for a replica, which has nothing to do if it is in its directory already."""
    partition = backend.id_of(topic, number)
    if partition is None or partition not in backend.image.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if partition in local else ErrorCode.REPLICA_NOT_AVAILABLE


API: Final = control(
    AlterReplicaLogDirsRequest,
    (1, 2),
    handle,
    needs=ALTER_CLUSTER,
    errors=error_codes.Errors(
        "AlterReplicaLogDirsResponse; ReplicaManager, alterReplicaLogDirs",
        error_codes.TOPIC
        | {ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REPLICA_NOT_AVAILABLE},
    ),
)
