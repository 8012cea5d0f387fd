"""OffsetFetch (key 9), versions 1 to 10: the committed offsets of groups.

v2 adds the error code, and null for all topics; v5 leader epochs (KIP-320); v7 `require_stable` (KIP-447); v8 several
groups (KIP-709); v9 the member, which matters to groups of KIP-848 alone; v10 names topics by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import named_twice
from ottla_broker.kafka.forwarding.group_calls import GROUPS_AT_ONCE, IDS_FROM, call, group_partition, name_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, few_at_once, sliced
from ottla_core.kafka.messages import OffsetFetchRequest, OffsetFetchResponse
from ottla_core.model import TopicPartition
from ottla_core.rpc.parts import in_parts
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_SEVERAL_FROM: Final = 8
_GROUP_ERROR_FROM: Final = 2
_NO_OFFSET: Final = -1
_OneTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopic
_Group: TypeAlias = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopics
_Topics: TypeAlias = list[Any]
"""Topics of the type that the version has. The fields of both types have the same names."""
_Requested: TypeAlias = OffsetFetchRequest.OffsetFetchRequestGroup
_OldTopic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestTopic
_RequestedTopic: TypeAlias = _OldTopic | OffsetFetchRequest.OffsetFetchRequestTopics


async def handle(backend: Backend, request: OffsetFetchRequest, context: KafkaContext) -> OffsetFetchResponse:
    version = context.version
    require_stable = request.require_stable
    if version >= _SEVERAL_FROM:
        twice = named_twice(entry.group_id for entry in request.groups)
        requested = list({item.group_id: item for item in request.groups}.values())

        async def fetch(group: _Requested) -> _Group:
            rejected = twice.get(group.group_id)
            return await _group(backend, group, context, require_stable, rejected)

        groups = await few_at_once(fetch, requested, at_once=GROUPS_AT_ONCE)
        return OffsetFetchResponse(groups=groups)
    code, topics = await _find(backend, request, context, require_stable)
    if code and version < _GROUP_ERROR_FROM:
        topics = await _everywhere(request.topics, code, version, Slice())
    return OffsetFetchResponse(error_code=code, topics=topics)


async def _group(
    backend: Backend, request: _Requested, context: KafkaContext, require_stable: bool, rejected: OttlaError | None
) -> _Group:
    """Return a group's offsets. A group that is named twice is rejected, because each is a call, and a large
    response."""
    if rejected is not None:
        return _Group(group_id=request.group_id, topics=[], error_code=int(rejected.code))
    code, topics = await _find(backend, request, context, require_stable)
    return _Group(group_id=request.group_id, topics=topics, error_code=code)


async def _find(
    backend: Backend, request: OffsetFetchRequest | _Requested, context: KafkaContext, require_stable: bool
) -> tuple[int, _Topics]:
    """Return the error of the whole group, and its topics if there is none."""
    version, allows = context.version, partial(context.access.allows, Operation.DESCRIBE, ResourceType.TOPIC)
    if (refused := context.access.refused(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)) is not None:
        return refused.code, []
    forwarded = pb.FetchOffsetsRequest(
        group=request.group_id, all=request.topics is None, require_stable=require_stable
    )
    if isinstance(request, _Requested) and (request.member_id is not None or request.member_epoch >= 0):
        forwarded.member.member_id = request.member_id or ""
        forwarded.generation = request.member_epoch
    found: dict[str, list[pb.CommittedOffset]] = {}
    unknown: list[_RequestedTopic] = []
    denied: list[_RequestedTopic] = []
    named: dict[TopicPartition, None] = {}
    slice_ = Slice()
    for topic in request.topics or ():
        await slice_.rest()
        name = topic.name if isinstance(topic, _OldTopic) else name_of(backend, topic.name, topic.topic_id, version)
        if name is None:
            unknown.append(topic)
            continue
        if not allows(name):
            denied.append(topic)
            continue
        named |= dict.fromkeys(TopicPartition(name, n) for n in topic.partition_indexes)
    partitions = await sliced(group_partition, named)
    for part in in_parts(partitions):
        del forwarded.partitions[:]
        forwarded.partitions.extend(part)
        try:
            response = await call(backend, request.group_id, Group.FETCH_OFFSETS, forwarded)
        except OttlaError as error:
            return error.code, []
        if response.error.code:
            return response.error.code, []
        for offset in response.offsets:
            found.setdefault(offset.topic, []).append(offset)
    topics = [
        await _reported(backend, name, entries, version, slice_) for name, entries in found.items() if allows(name)
    ]
    topics += await _everywhere(unknown, int(ErrorCode.UNKNOWN_TOPIC_ID), version, slice_)
    topics += await _everywhere(denied, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), version, slice_)
    return 0, [topic for topic in topics if topic is not None]


async def _reported(
    backend: Backend, name: str, found: list[pb.CommittedOffset], version: int, slice_: Slice
) -> Any | None:
    """Return a topic's offsets, or None if the topic is gone and topics have to be named by their ids."""
    named: dict[str, Any] = {"name": name}
    if version >= IDS_FROM:
        topic = backend.image.topics.get(name)
        if topic is None:
            return None
        named = {"topic_id": topic.id}
        found = [entry if entry.topic_id in (b"", topic.id) else _nothing(entry) for entry in found]
    return _topic(version, named, await sliced(partial(_partition, version), found, slice_))


async def _everywhere(topics: Sequence[_RequestedTopic] | None, code: int, version: int, slice_: Slice) -> _Topics:
    """Return one error for every partition that was requested."""
    nothing = {"committed_offset": _NO_OFFSET, "committed_leader_epoch": -1, "metadata": "", "error_code": code}
    partition = partial(_partition_type(version), **nothing)
    reported = []
    for topic in topics or ():
        named = (
            {"name": topic.name} if isinstance(topic, _OldTopic) or version < IDS_FROM else {"topic_id": topic.topic_id}
        )
        partitions = await sliced(lambda n: partition(partition_index=n), topic.partition_indexes, slice_)
        reported.append(_topic(version, named, partitions))
    return reported


def _partition(version: int, found: pb.CommittedOffset) -> Any:
    return _partition_type(version)(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch if found.HasField("leader_epoch") else -1,
        metadata=found.metadata,
        error_code=found.error.code,
    )


def _nothing(elsewhere: pb.CommittedOffset) -> pb.CommittedOffset:
    """Return no offset, because it was committed in another topic of that name than the one that is described."""
    return pb.CommittedOffset(topic=elsewhere.topic, partition=elsewhere.partition, offset=_NO_OFFSET)


def _topic(version: int, named: dict[str, Any], partitions: list[Any]) -> Any:
    topic_type = _GroupTopic if version >= _SEVERAL_FROM else _OneTopic
    return topic_type(partitions=partitions, **named)


def _partition_type(version: int) -> Any:
    if version >= _SEVERAL_FROM:
        return OffsetFetchResponse.OffsetFetchResponsePartitions
    return OffsetFetchResponse.OffsetFetchResponsePartition


API: Final = control(
    OffsetFetchRequest,
    (1, 10),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema (v9, v10); OffsetFetchResponse; KIP-447, KIP-848",
        error_codes.GROUP | error_codes.TOPIC | {ErrorCode.GROUP_ID_NOT_FOUND},
        {
            ErrorCode.UNSTABLE_OFFSET_COMMIT: error_codes.Since(7, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            ErrorCode.UNKNOWN_MEMBER_ID: error_codes.Since(9, ErrorCode.INVALID_REQUEST),
            ErrorCode.STALE_MEMBER_EPOCH: error_codes.Since(9, ErrorCode.INVALID_REQUEST),
            ErrorCode.ILLEGAL_GENERATION: error_codes.Since(9, ErrorCode.INVALID_REQUEST),
            **error_codes.by_id(10),
        },
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.FETCH_OFFSETS,
)
