"""What is served: every API with its versions and who answers it. ApiVersions and docs/kafka-apis.md are read off it.

The minima are those of Kafka 4.x but for Produce, which is advertised from 0 and served from 3, as Kafka does it: old
librdkafka takes a larger minimum for a broker that knows no compression (design: traps in docs/kafka-apis.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from ottla_broker.kafka import codec, frames
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.connection import Answered, CloseConnectionError
from ottla_broker.kafka.frames import Caller, Head, Parts, Request
from ottla_broker.kafka.handlers import (
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from ottla_broker.kafka.limits import PRODUCE_KEY
from ottla_core.primitives import MalformedError
from ottla_core.rpc.context import new_request_id
from ottla_core.rpc.status import log_bug
from ottla_core.telemetry import Counter, Histogram, Metrics

_LARGE_BYTES: Final = 4096
"""Of a request, beyond its header: what is smaller has two thousand elements at most."""
_MANY: Final = 500
"""Elements of an answer: so many are encoded in some milliseconds."""

NEVER: Final = 2**15 - 1
"""Flexible in no version."""

Handler = Callable[[Backend, Request], Answered]
AroundApi = Callable[[str, Handler], Handler]
"""Wraps every API that is served, given its name; how `ottla.testing` brings its faults in."""
Control = Callable[[Backend, Message, Request], Message | Coroutine[Any, Any, Message]]


@dataclass(frozen=True, slots=True)
class Api:
    """`flexible_from`: the first version with compact fields and tags; `advertised_from`: where not `min_version`."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    handler: Handler
    advertised_from: int | None = None

    @property
    def advertised_min(self) -> int:
        return self.min_version if self.advertised_from is None else self.advertised_from


def unchanged(name: str, handler: Handler) -> Handler:
    return handler


def control(request_type: Any, answer: Control) -> Handler:
    """A handler for a message of the codec library. It is decoded before anything is awaited, unless it is large."""

    def handle(backend: Backend, request: Request) -> Answered:
        if request.body.left > _LARGE_BYTES:
            return _beside_the_loop(backend, request_type, answer, request.kept())
        answered = answer(backend, codec.decode(request_type, request.version, request.body), request)
        return _encoded(backend, answered) if asyncio.iscoroutine(answered) else codec.encode(answered)

    return handle


async def _beside_the_loop(backend: Backend, request_type: Any, answer: Control, request: Request) -> Parts:
    """What may have elements by the thousand. Whoever answers goes through them in slices (ottla_core.slices)."""
    asked = await backend.threads.work(codec.decode, request_type, request.version, request.body)
    answered = answer(backend, asked, request)
    return await _encoded(backend, answered if asyncio.iscoroutine(answered) else _itself(answered))


async def _encoded(backend: Backend, answer: Coroutine[Any, Any, Message]) -> Parts:
    told = await answer
    return await backend.threads.work(codec.encode, told) if codec.has_many(told, _MANY) else codec.encode(told)


async def _itself(answer: Message) -> Message:
    return answer


def _api_versions(backend: Backend, request: Request) -> Answered:
    return api_versions.answer(request, APIS.values())


_TABLE: Final = (
    Api(PRODUCE_KEY, "Produce", 3, 11, 9, produce.answer, advertised_from=0),
    Api(1, "Fetch", 4, 18, 12, fetch.answer),
    Api(2, "ListOffsets", 1, 11, 6, control(ListOffsetsRequest, list_offsets.answer)),
    Api(3, "Metadata", 0, 13, 9, control(MetadataRequest, metadata.answer)),
    Api(8, "OffsetCommit", 2, 10, 8, control(OffsetCommitRequest, offset_commit.answer)),
    Api(9, "OffsetFetch", 1, 10, 6, control(OffsetFetchRequest, offset_fetch.answer)),
    Api(10, "FindCoordinator", 0, 6, 3, control(FindCoordinatorRequest, find_coordinator.answer)),
    Api(11, "JoinGroup", 0, 9, 6, control(JoinGroupRequest, join_group.answer)),
    Api(12, "Heartbeat", 0, 4, 4, control(HeartbeatRequest, heartbeat.answer)),
    Api(13, "LeaveGroup", 0, 5, 4, control(LeaveGroupRequest, leave_group.answer)),
    Api(14, "SyncGroup", 0, 5, 4, control(SyncGroupRequest, sync_group.answer)),
    Api(15, "DescribeGroups", 0, 6, 5, control(DescribeGroupsRequest, describe_groups.answer)),
    Api(16, "ListGroups", 0, 5, 3, control(ListGroupsRequest, list_groups.answer)),
    Api(api_versions.KEY, "ApiVersions", 0, 4, 3, _api_versions),
    Api(19, "CreateTopics", 2, 7, 5, control(CreateTopicsRequest, create_topics.answer)),
    Api(20, "DeleteTopics", 1, 6, 4, control(DeleteTopicsRequest, delete_topics.answer)),
    Api(21, "DeleteRecords", 0, 2, 2, control(DeleteRecordsRequest, delete_records.answer)),
    Api(22, "InitProducerId", 0, 5, 2, control(InitProducerIdRequest, init_producer_id.answer)),
    Api(23, "OffsetForLeaderEpoch", 2, 4, 4, control(OffsetForLeaderEpochRequest, offset_for_leader_epoch.answer)),
    Api(32, "DescribeConfigs", 1, 4, 4, control(DescribeConfigsRequest, describe_configs.answer)),
    Api(33, "AlterConfigs", 0, 2, 2, control(AlterConfigsRequest, alter_configs.replacing)),
    Api(34, "AlterReplicaLogDirs", 1, 2, 2, control(AlterReplicaLogDirsRequest, alter_replica_log_dirs.answer)),
    Api(35, "DescribeLogDirs", 1, 5, 2, control(DescribeLogDirsRequest, describe_log_dirs.answer)),
    Api(37, "CreatePartitions", 0, 3, 2, control(CreatePartitionsRequest, create_partitions.answer)),
    Api(42, "DeleteGroups", 0, 2, 2, control(DeleteGroupsRequest, delete_groups.answer)),
    Api(43, "ElectLeaders", 0, 2, 2, control(ElectLeadersRequest, elect_leaders.answer)),
    Api(44, "IncrementalAlterConfigs", 0, 1, 1, control(IncrementalAlterConfigsRequest, alter_configs.incremental)),
    Api(47, "OffsetDelete", 0, 0, NEVER, control(OffsetDeleteRequest, offset_delete.answer)),
    Api(55, "DescribeQuorum", 0, 2, 0, control(DescribeQuorumRequest, describe_quorum.answer)),
    Api(60, "DescribeCluster", 0, 2, 0, control(DescribeClusterRequest, describe_cluster.answer)),
    Api(61, "DescribeProducers", 0, 0, 0, control(DescribeProducersRequest, describe_producers.answer)),
    Api(74, "ListConfigResources", 0, 1, 0, control(ListConfigResourcesRequest, list_config_resources.answer)),
    Api(
        75,
        "DescribeTopicPartitions",
        0,
        0,
        0,
        control(DescribeTopicPartitionsRequest, describe_topic_partitions.answer),
    ),
)

APIS: Final = {api.key: api for api in sorted(_TABLE, key=lambda api: api.key)}


class Dispatcher:
    """Takes frames apart, finds who answers, and puts answers into frames."""

    def __init__(self, backend: Backend, metrics: Metrics, around: AroundApi = unchanged) -> None:
        self._backend = backend
        self._handlers: Final = {api.key: around(api.name, api.handler) for api in APIS.values()}
        self._requests: Final[dict[int, Counter]] = {
            api.key: metrics.counter("ottla_kafka_requests_total", "Requests of Kafka clients.", api=api.name)
            for api in APIS.values()
        }
        self._metrics = metrics
        self._times: Final[dict[int, Histogram]] = {}
        """Of those that were asked for: a histogram has many series."""

    def may_overlap(self, key: int) -> bool:
        return key == PRODUCE_KEY

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> Answered:
        """Begin a request. It, or what it gives, may raise MalformedError or CloseConnectionError."""
        api = APIS.get(head.key)
        if api is None:
            raise CloseConnectionError(f"API {head.key} is not served")
        if not api.min_version <= head.version <= api.max_version:
            return _refused(api, head.version, frame)
        flexible = head.version >= api.flexible_from
        request = frames.read_request(frame, head.version, caller, flexible=flexible)
        self._requests[head.key].value += 1
        begun_at = perf_counter()
        tagged = flexible and head.key != api_versions.KEY
        try:
            answered = self._handlers[head.key](self._backend, request)
        except (MalformedError, CloseConnectionError):
            raise
        except Exception as error:
            raise _bug(api, error) from None
        if answered is None or isinstance(answered, list):
            self._on_answered(api, begun_at)
            return None if answered is None else frames.answer(request.correlation_id, answered, tagged=tagged)
        return self._later(api, answered, request.correlation_id, begun_at, tagged=tagged)

    async def _later(
        self,
        api: Api,
        answered: Coroutine[Any, Any, Parts | None],
        correlation_id: int,
        begun_at: float,
        *,
        tagged: bool,
    ) -> Parts | None:
        try:
            body = await answered
        except (MalformedError, CloseConnectionError):
            raise
        except Exception as error:
            raise _bug(api, error) from None
        self._on_answered(api, begun_at)
        return None if body is None else frames.answer(correlation_id, body, tagged=tagged)

    def _on_answered(self, api: Api, begun_at: float) -> None:
        times = self._times.get(api.key)
        if times is None:
            words = "From a request of a Kafka client to its answer, waits included."
            times = self._metrics.histogram("ottla_kafka_request_seconds", words, api=api.name)
            self._times[api.key] = times
        times.observe(perf_counter() - begun_at)


def _refused(api: Api, version: int, frame: memoryview) -> Parts:
    """What an unknown version is answered: ApiVersions tells its own range, any other API ends the connection."""
    if api.key != api_versions.KEY:
        raise CloseConnectionError(f"{api.name} of version {version} is not served")
    return frames.answer(frames.read_correlation_id(frame), api_versions.unsupported(api), tagged=False)


def _bug(api: Api, error: Exception) -> CloseConnectionError:
    return CloseConnectionError(log_bug(f"Kafka {api.name}", new_request_id(), error))
