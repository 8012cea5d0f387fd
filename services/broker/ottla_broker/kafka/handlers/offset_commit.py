"""OffsetCommit (key 8), versions 2 to 10: offsets of a group, of topics that exist.

v5 drops the retention time; v6 adds leader epochs (KIP-320); v7 the group instance id (KIP-345); v10 names topics by
id.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened
from ottla_broker.kafka.forwarding.group_calls import IDS_FROM, call, existing_partitions, member, name_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import OffsetCommitRequest, OffsetCommitResponse, TxnOffsetCommitRequest
from ottla_core.model import TopicPartition
from ottla_core.rpc.parts import commit_in_parts
from ottla_core.rpc.status import error_message
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Topic: TypeAlias = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition: TypeAlias = OffsetCommitResponse.OffsetCommitResponsePartition

_MEMBER_EPOCHS_FROM: Final = 9

CommittedPartition: TypeAlias = (
    OffsetCommitRequest.OffsetCommitRequestPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
)


class RequestedTopic(NamedTuple):
    """A topic of the request, and the error of all its partitions if it is unknown or denied. `name` is None if it is
    unknown."""

    name: str | None
    error: Error | None
    topic: OffsetCommitRequest.OffsetCommitRequestTopic


async def handle(backend: Backend, request: OffsetCommitRequest, context: KafkaContext) -> OffsetCommitResponse:
    version, access = context.version, context.access
    refused = access.refused(Operation.READ, ResourceType.GROUP, request.group_id)
    requested: list[RequestedTopic] = []
    named: dict[TopicPartition, tuple[CommittedPartition, bytes]] = {}
    slice_ = Slice()
    for topic in request.topics:
        await slice_.rest()
        name = name_of(backend, topic.name, topic.topic_id, version)
        error = refused or (None if name is None else access.refused(Operation.READ, ResourceType.TOPIC, name))
        requested.append(RequestedTopic(name, None if error is None else error_message(error), topic))
        # if a partition is named twice, the last one counts, as it would if it were committed twice
        if name is not None and error is None:
            existing = existing_partitions(backend, name)
            topic_id = topic.topic_id if version >= IDS_FROM else b""
            named |= {
                TopicPartition(name, p.partition_index): (p, topic_id)
                for p in topic.partitions
                if p.partition_index in existing
            }
    errors: dict[TopicPartition, Error] = {}
    if named or all(entry.error is None for entry in requested):
        errors = await _commit(backend, request, await sliced(_named_offset, named.items()), version)
    topics = [await _reported(entry, errors, version, slice_) for entry in requested]
    return OffsetCommitResponse(topics=topics)


def _named_offset(named: tuple[TopicPartition, tuple[CommittedPartition, bytes]]) -> pb.OffsetToCommit:
    partition, (requested, topic_id) = named
    return offset_to_commit(partition, requested, topic_id)


def offset_to_commit(
    partition: TopicPartition, requested: CommittedPartition, topic_id: bytes = b""
) -> pb.OffsetToCommit:
    """Return an offset as the contract has it. TxnOffsetCommit uses it, too."""
    epoch = requested.committed_leader_epoch
    return pb.OffsetToCommit(
        topic=partition.topic,
        partition=partition.partition,
        offset=requested.committed_offset,
        leader_epoch=None if epoch < 0 else epoch,
        metadata=requested.committed_metadata or "",
        topic_id=topic_id,
    )


async def _commit(
    backend: Backend, request: OffsetCommitRequest, offsets: list[pb.OffsetToCommit], version: int
) -> dict[TopicPartition, Error]:
    """Return the error of each partition that was passed on. Its code is 0 if all is well."""
    whole = pb.CommitOffsetsRequest(
        group=request.group_id,
        member=member(request.member_id, request.group_instance_id),
        generation=request.generation_id_or_member_epoch,
        knows_no_epochs=version < _MEMBER_EPOCHS_FROM,
    )
    return await commit(backend, whole, offsets)


async def commit(
    backend: Backend, whole: pb.CommitOffsetsRequest, offsets: list[pb.OffsetToCommit]
) -> dict[TopicPartition, Error]:
    """Commit with requests like `whole`, which has no offsets. Return the error of each partition."""
    errors: dict[TopicPartition, Error] = {}
    for offsets_of_part in commit_in_parts(whole.group, offsets, pb.OffsetToCommit.ByteSize):
        part = pb.CommitOffsetsRequest(offsets=offsets_of_part)
        part.MergeFrom(whole)
        try:
            response = await call(backend, part.group, Group.COMMIT_OFFSETS, part)
            of_all = response.error
        except OttlaError as failure:
            of_all = error_message(failure)
        if of_all.code:
            errors |= {TopicPartition(offset.topic, offset.partition): of_all for offset in part.offsets}
        else:
            errors |= {TopicPartition(each.topic, each.partition): each.error for each in response.partitions}
    return errors


async def _reported(
    requested: RequestedTopic, errors: dict[TopicPartition, Error], version: int, slice_: Slice
) -> _Topic:
    code = ErrorCode.UNKNOWN_TOPIC_ID if requested.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = requested.error or Error(code=code)

    def reported(number: int) -> _Partition:
        error = errors.get(TopicPartition(requested.name or "", number), unknown)
        return _Partition(partition_index=number, error_code=error.code, error_message=shortened(error.message))

    partitions = await sliced(
        reported, dict.fromkeys(partition.partition_index for partition in requested.topic.partitions), slice_
    )
    if version >= IDS_FROM:
        return _Topic(topic_id=requested.topic.topic_id, partitions=partitions)
    return _Topic(name=requested.topic.name, partitions=partitions)


API: Final = control(
    OffsetCommitRequest,
    (2, 10),
    handle,
    needs=needs((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema (v9, v10); GroupMetadataManager; CoordinatorOperationExceptionHelper; KIP-345, KIP-848",
        error_codes.GROUP
        | error_codes.TOPIC
        | {
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        },
        {
            **error_codes.static(7),
            ErrorCode.GROUP_ID_NOT_FOUND: error_codes.Since(_MEMBER_EPOCHS_FROM, ErrorCode.ILLEGAL_GENERATION),
            ErrorCode.STALE_MEMBER_EPOCH: error_codes.Since(_MEMBER_EPOCHS_FROM, ErrorCode.UNSUPPORTED_VERSION),
            **error_codes.by_id(10),
        },
        error_codes.COMMITTING,
    ),
    forwards=Group.COMMIT_OFFSETS,
)
