"""DescribeLogDirs (key 35), versions 1 to 5: this broker's one directory and its replicas' sizes (KIP-113).

v3 adds an error code (KIP-784); v4 total and usable bytes (KIP-827); v5 whether the directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import DESCRIBE_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.log_dir import LogDir
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla_proto.operation import Operation

_Result: TypeAlias = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic: TypeAlias = DescribeLogDirsResponse.DescribeLogDirsTopic
_Partition: TypeAlias = DescribeLogDirsResponse.DescribeLogDirsPartition


async def handle(backend: Backend, request: DescribeLogDirsRequest, context: KafkaContext) -> DescribeLogDirsResponse:
    if (refused := context.access.refused(Operation.DESCRIBE)) is not None:
        return DescribeLogDirsResponse(error_code=refused.code, results=[])
    sizes = backend.log_dir().sizes()
    described = partial(_partition, backend.log_dir())
    by_topic: dict[str, list[Replica]] = defaultdict(list)
    for replica in sorted(await _requested(backend, request), key=lambda replica: replica.id.partition):
        by_topic[replica.topic].append(replica)
    topics, slice_ = [], Slice()
    for name in sorted(by_topic):
        partitions = await sliced(described, by_topic[name], slice_)
        topics.append(_Topic(name=name, partitions=partitions))
    result = _Result(
        error_code=0,
        log_dir=sizes.path,
        topics=topics,
        total_bytes=sizes.total_bytes,
        usable_bytes=sizes.usable_bytes,
        is_cordoned=False,
    )
    return DescribeLogDirsResponse(error_code=0, results=[result])


async def _requested(backend: Backend, request: DescribeLogDirsRequest) -> Iterable[Replica]:
    """Return the requested replicas, or all if none are named. Unknown ones are left out."""
    if request.topics is None:
        return backend.replicas.table.all()
    found, time_slice = dict[Replica | None, None](), Slice()
    for topic in request.topics:
        find = partial(_replica, backend, topic.topic)
        found.update(dict.fromkeys(await sliced(find, topic.partitions, time_slice)))
    return [replica for replica in found if replica is not None]


def _replica(backend: Backend, topic: str, number: int) -> Replica | None:
    partition_id = backend.id_of(topic, number)
    return None if partition_id is None else backend.replicas.table.get(partition_id)


def _partition(log_dir: LogDir, replica: Replica) -> _Partition:
    """Describe a replica. `offset_lag` says how far the log is behind what is known to be committed."""
    return _Partition(
        partition_index=replica.id.partition,
        partition_size=replica.log.size_bytes,
        offset_lag=max(0, replica.offsets.high_watermark - replica.log.log_end_offset),
        is_future_key=False,
        uncleanable=replica.log.compaction.failure,
        late_transaction=replica.has_late_transaction,
        incomplete=not log_dir.has_all_of(replica.id),
    )


API: Final = control(
    DescribeLogDirsRequest,
    (1, 5),
    handle,
    needs=DESCRIBE_CLUSTER,
    errors=error_codes.Errors(
        "DescribeLogDirsResponse; KIP-784", frozenset({ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.KAFKA_STORAGE_ERROR})
    ),
)
