"""Responses of scripted brokers that reject a request: Kafka's messages differ in where they have the error."""

from __future__ import annotations

from typing import Any, Final

from ottla.client.kafka.apis import AnyApi
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

_SEVERAL_GROUPS_FROM: Final = 8
_SEVERAL_COORDINATORS_FROM: Final = 4


def rejection(api: AnyApi, version: int, request: Message, code: int, message: str) -> Message:
    """Return the response with this error: for the whole request if its response has a field for that, and otherwise
    for each of its parts. Raises OttlaError if a response can't have it."""
    parts = _of_parts(version, request, code, message)
    if parts is not None:
        return parts
    fields: dict[str, Any] = {"error_code": code, "error_message": message}
    known = {name: value for name, value in fields.items() if name in api.response.__slots__}
    if "error_code" not in known:
        raise OttlaError(ErrorCode.INVALID_REQUEST, f"a response to {api.name} has no error")
    response: Message = api.response(**known)
    return response


def _of_parts(version: int, request: Message, code: int, message: str) -> Message | None:
    match request:
        case ProduceRequest():
            part = ProduceResponse.PartitionProduceResponse
            return ProduceResponse(
                responses=[
                    ProduceResponse.TopicProduceResponse(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_responses=[
                            part(index=each.index, error_code=code, error_message=message, base_offset=-1)
                            for each in topic.partition_data
                        ],
                    )
                    for topic in request.topic_data
                ]
            )
        case ListOffsetsRequest():
            offset = ListOffsetsResponse.ListOffsetsPartitionResponse
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsResponse.ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            offset(partition_index=each.partition_index, error_code=code, error_message=message)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        case OffsetForLeaderEpochRequest():
            end = OffsetForLeaderEpochResponse.EpochEndOffset
            return OffsetForLeaderEpochResponse(
                topics=[
                    OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                        topic=topic.topic,
                        partitions=[end(partition=each.partition, error_code=code) for each in topic.partitions],
                    )
                    for topic in request.topics
                ]
            )
        case FindCoordinatorRequest() if version >= _SEVERAL_COORDINATORS_FROM:
            coordinator = FindCoordinatorResponse.Coordinator
            return FindCoordinatorResponse(
                coordinators=[
                    coordinator(key=key, error_code=code, error_message=message) for key in request.coordinator_keys
                ]
            )
        case AddPartitionsToTxnRequest():
            return _not_added(request, code)
        case DescribeGroupsRequest():
            group = DescribeGroupsResponse.DescribedGroup
            return DescribeGroupsResponse(
                groups=[group(group_id=name, error_code=code, error_message=message) for name in request.groups]
            )
        case DescribeTransactionsRequest():
            state = DescribeTransactionsResponse.TransactionState
            return DescribeTransactionsResponse(
                transaction_states=[
                    state(transactional_id=name, error_code=code, error_message=message)
                    for name in request.transactional_ids
                ]
            )
        case OffsetFetchRequest() if version >= _SEVERAL_GROUPS_FROM:
            found = OffsetFetchResponse.OffsetFetchResponseGroup
            return OffsetFetchResponse(
                groups=[found(group_id=each.group_id, error_code=code) for each in request.groups]
            )
        case OffsetCommitRequest():
            return OffsetCommitResponse(topics=_not_committed(OffsetCommitResponse, request, code, message))
        case TxnOffsetCommitRequest():
            return TxnOffsetCommitResponse(topics=_not_committed(TxnOffsetCommitResponse, request, code, message))
        case _:
            return None


def _not_added(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    """The last partition is at fault, so none is added."""
    last = request.v3_and_below_topics[-1]
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    result(
                        partition_index=number,
                        partition_error_code=(
                            code
                            if topic is last and number == last.partitions[-1]
                            else ErrorCode.OPERATION_NOT_ATTEMPTED
                        ),
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _not_committed(
    response: type[Any], request: OffsetCommitRequest | TxnOffsetCommitRequest, code: int, message: str
) -> list[Any]:
    of_topic, of_partition = (getattr(response, f"{response.__name__}{part}") for part in ("Topic", "Partition"))
    return [
        of_topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                of_partition(partition_index=each.partition_index, error_code=code, error_message=message)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
