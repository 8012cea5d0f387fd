"""Responses of scripted brokers that reject a request: Kafka's messages differ in where they have the error."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from ottla.client.kafka.apis import AnyApi
from ottla.fakes.scripted_parts import committed, epoch_ends, listed_offsets, produced
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


def rejection(api: AnyApi, request: Message, code: int, message: str) -> Message:
    """Return the response with this error: for the whole request if its response has a field for that, and otherwise
    for each of its parts. Raises OttlaError if a response can't have it."""
    parts = _of_parts(request, code, message)
    if parts is not None:
        return parts
    fields: dict[str, Any] = {"error_code": code, "error_message": message}
    known = {name: value for name, value in fields.items() if name in api.response.__slots__}
    if "error_code" not in known:
        raise OttlaError(ErrorCode.INVALID_REQUEST, f"a response to {api.name} has no error")
    response: Message = api.response(**known)
    return response


def _of_parts(request: Message, code: int, message: str) -> Message | None:
    error: dict[str, Any] = {"error_code": code, "error_message": message}
    match request:
        case ProduceRequest():
            appended = ProduceResponse.PartitionProduceResponse
            return produced(request, lambda _, part: appended(index=part.index, base_offset=-1, **error))
        case ListOffsetsRequest():
            offset = ListOffsetsResponse.ListOffsetsPartitionResponse
            return listed_offsets(request, lambda _, part: offset(partition_index=part.partition_index, **error))
        case OffsetForLeaderEpochRequest():
            end = OffsetForLeaderEpochResponse.EpochEndOffset
            return epoch_ends(request, lambda _, part: end(partition=part.partition, error_code=code))
        case FindCoordinatorRequest() if request.coordinator_keys:
            coordinator = FindCoordinatorResponse.Coordinator
            return FindCoordinatorResponse(
                coordinators=[coordinator(key=key, **error) for key in request.coordinator_keys]
            )
        case AddPartitionsToTxnRequest():
            return _not_added(request, code)
        case DescribeGroupsRequest():
            group = DescribeGroupsResponse.DescribedGroup
            return DescribeGroupsResponse(groups=[group(group_id=name, **error) for name in request.groups])
        case DescribeTransactionsRequest():
            state = DescribeTransactionsResponse.TransactionState
            return DescribeTransactionsResponse(
                transaction_states=[state(transactional_id=name, **error) for name in request.transactional_ids]
            )
        case OffsetFetchRequest() if request.groups:
            found = OffsetFetchResponse.OffsetFetchResponseGroup
            return OffsetFetchResponse(
                groups=[found(group_id=each.group_id, error_code=code) for each in request.groups]
            )
        case OffsetCommitRequest():
            return OffsetCommitResponse(topics=committed(request, OffsetCommitResponse, repeat((code, message))))
        case TxnOffsetCommitRequest():
            return TxnOffsetCommitResponse(topics=committed(request, TxnOffsetCommitResponse, repeat((code, message))))
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
