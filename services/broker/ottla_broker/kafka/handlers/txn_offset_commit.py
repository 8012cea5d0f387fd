"""TxnOffsetCommit (key 28), versions 0 to 6: offsets of a group that count once a transaction is committed (KIP-98).

v2 adds leader epochs (KIP-320); v3 the member and its generation (KIP-447); from v5 on the group's coordinator adds the
group to the transaction, before that it is verified (KIP-890); v6 names topics by id (KIP-1319).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened
from ottla_broker.kafka.forwarding.group_calls import existing_partitions, member, name_by_id
from ottla_broker.kafka.forwarding.transaction_calls import producer_of, results_by_topic
from ottla_broker.kafka.handlers.offset_commit import CommittedPartition, commit, offset_to_commit
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla_core.model import TopicPartition
from ottla_core.rpc.status import error_message
from ottla_core.security.resource import ResourceType
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Topic: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Partition: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition

_ADDS_FROM: Final = 5
_IDS_FROM: Final = 6
_UNKNOWN_ID: Final = Error(code=ErrorCode.UNKNOWN_TOPIC_ID)
_UNKNOWN: Final = Error(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def handle(backend: Backend, request: TxnOffsetCommitRequest, context: KafkaContext) -> TxnOffsetCommitResponse:
    version, access = context.version, context.access
    refused = access.refused(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    refused = refused or access.refused(Operation.READ, ResourceType.GROUP, request.group_id)
    ids, unknown = {}, []
    named: dict[TopicPartition, tuple[CommittedPartition, bytes]] = {}
    for topic in request.topics:
        name = topic.name if version < _IDS_FROM else name_by_id(backend, topic.topic_id)
        if name is None:
            unknown.append(topic)
            continue
        ids[name] = topic_id = topic.topic_id if version >= _IDS_FROM else b""
        named |= {TopicPartition(name, entry.partition_index): (entry, topic_id) for entry in topic.partitions}
    denied = await access.denied(Operation.READ, ResourceType.TOPIC, (p.topic for p in named))
    known = [
        (p, *entry)
        for p, entry in named.items()
        if p.topic not in denied and p.partition in existing_partitions(backend, p.topic)
    ]
    errors = {p: error_message(denied[p.topic]) if p.topic in denied else _UNKNOWN for p in named}
    unknown_id = _UNKNOWN_ID
    if refused is not None:
        unknown_id = error_message(refused)
        errors = dict.fromkeys(named, unknown_id)
    elif known:
        offsets = await sliced(lambda each: offset_to_commit(*each), known)
        errors |= await commit(backend, _forwarded(request, version), offsets)

    def result(number: int, error: Error) -> _Partition:
        return _Partition(partition_index=number, error_code=error.code, error_message=shortened(error.message))

    by_topic = await results_by_topic(errors, result)
    if version < _IDS_FROM:
        topics = [_Topic(name=name, partitions=results) for name, results in by_topic.items()]
    else:
        topics = [_Topic(topic_id=ids[name], partitions=results) for name, results in by_topic.items()]
    for topic in unknown:
        results = await sliced(lambda entry: result(entry.partition_index, unknown_id), topic.partitions)
        topics.append(_Topic(topic_id=topic.topic_id, partitions=results))
    return TxnOffsetCommitResponse(topics=topics)


def _forwarded(request: TxnOffsetCommitRequest, version: int) -> pb.CommitOffsetsRequest:
    return pb.CommitOffsetsRequest(
        group=request.group_id,
        member=member(request.member_id, request.group_instance_id),
        generation=request.generation_id_or_member_epoch,
        transaction=pb.OffsetsTransaction(
            transactional_id=request.transactional_id,
            producer=producer_of(request),
            transaction_version=TRANSACTIONS_V2 if version >= _ADDS_FROM else TRANSACTIONS_V1,
        ),
    )


API: Final = control(
    TxnOffsetCommitRequest,
    (0, 6),
    handle,
    needs=needs(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.READ, ResourceType.GROUP),
        (Operation.READ, ResourceType.TOPIC),
    ),
    errors=error_codes.Errors(
        "schema (v4, v6); TxnOffsetCommitResponse: no version has PRODUCER_FENCED; KIP-447, KIP-890, KIP-1319",
        error_codes.TRANSACTION
        | error_codes.TOPIC
        | {
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        },
        {
            **error_codes.static(3),
            **error_codes.abortable(4),
            **error_codes.by_id(6),
            ErrorCode.GROUP_ID_NOT_FOUND: error_codes.Since(6, ErrorCode.ILLEGAL_GENERATION),
            ErrorCode.STALE_MEMBER_EPOCH: error_codes.Since(6, ErrorCode.ILLEGAL_GENERATION),
        },
        {
            **error_codes.COMMITTING,
            ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
        },
    ),
    forwards=Group.COMMIT_OFFSETS,
)
