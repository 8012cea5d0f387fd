"""AlterReplicaLogDirs: a replica moves to another directory of its broker, of which there is one (KIP-113)."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from kafka.protocol.admin import AlterReplicaLogDirsResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import Request
from ottla_core.errors import ErrorCode

_Topic: Final = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Partition: Final = _Topic.AlterReplicaLogDirPartitionResult


def answer(backend: Backend, asked: Message, request: Request) -> Message:
    """A partition that is named for several directories is answered for the last one, as in Kafka."""
    version, own = request.version, backend.log_dir().figures().path
    here = {(replica.topic, replica.id.partition) for replica in backend.replicas.all()}
    codes: dict[str, dict[int, ErrorCode]] = defaultdict(dict)
    for wanted in asked.dirs:
        for topic in wanted.topics:
            for number in topic.partitions:
                codes[topic.name][number] = _code(wanted.path == own, (topic.name, number) in here)
    results = [
        _Topic(
            version=version,
            topic_name=name,
            partitions=[
                _Partition(version=version, partition_index=number, error_code=int(code)) for number, code in of.items()
            ],
        )
        for name, of in codes.items()
    ]
    return AlterReplicaLogDirsResponse(version=version, results=results)


def _code(is_own: bool, is_here: bool) -> ErrorCode:
    """A replica that is where it is wanted has nothing to do."""
    if not is_own:
        return ErrorCode.LOG_DIR_NOT_FOUND
    return ErrorCode.NONE if is_here else ErrorCode.REPLICA_NOT_AVAILABLE
