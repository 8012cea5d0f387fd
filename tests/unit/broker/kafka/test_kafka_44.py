"""Versions of Kafka 4.4 that neither kafka-python nor kio knows yet, by our own codec."""

from __future__ import annotations

import pytest
from group_backend import GroupBackend
from images import topic_id

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from ottla_proto import group_pb2
from ottla_proto.common_pb2 import Error

NO_ID = bytes(16)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("test", 0, ErrorCode.NONE),
        ("another", 0, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("test", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("test", -1, ErrorCode.INVALID_REQUEST),
        (None, 0, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_client_that_has_reached_another_broker_is_told_to_bootstrap_again(
    cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    backend = GroupBackend()
    assert (backend.image.cluster_id, backend.node_id) == ("test", 0)
    request = ApiVersionsRequest(
        client_software_name="tests", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    response = await backend.answer_by_ours(request, ApiVersionsResponse, 5)
    assert response.error_code == code
    assert bool(response.api_keys) == (code is ErrorCode.NONE)


async def test_a_group_that_is_not_deleted_has_a_message() -> None:
    def delete(_: object, asked: group_pb2.DeleteGroupsRequest) -> group_pb2.DeleteGroupsResponse:
        error = Error(code=ErrorCode.NON_EMPTY_GROUP, message="it has members") if asked.groups[0] == "h" else None
        return group_pb2.DeleteGroupsResponse(groups=[group_pb2.GroupDeleted(group=asked.groups[0], error=error)])

    request = DeleteGroupsRequest(groups_names=["g", "h"])
    response = await GroupBackend(delete).answer_by_ours(request, DeleteGroupsResponse, 3)
    assert [(r.group_id, r.error_code, r.error_message) for r in response.results] == [
        ("g", 0, None),
        ("h", ErrorCode.NON_EMPTY_GROUP, "it has members"),
    ]
    lost = GroupBackend(OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody", hint="wait"))
    response = await lost.answer_by_ours(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, 3)
    assert [r.error_message for r in response.results] == ["nobody; wait"]


def commit() -> TxnOffsetCommitRequest:
    kind, part = (
        TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic,
        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
    )
    return TxnOffsetCommitRequest(
        transactional_id="t-1",
        group_id="g",
        producer_id=7,
        producer_epoch=1,
        topics=[
            kind(topic_id=number, partitions=[part(partition_index=n, committed_offset=10 + n) for n in (0, 3)])
            for number in (topic_id(1), topic_id(99))
        ],
    )


async def test_offsets_of_a_transaction_name_topics_by_their_ids() -> None:
    done = group_pb2.PartitionOutcome(topic="t", partition=0)
    backend = GroupBackend(group_pb2.CommitOffsetsResponse(partitions=[done]))
    response = await backend.answer_by_ours(commit(), TxnOffsetCommitResponse, 6)
    outcomes = {t.topic_id: [(p.partition_index, p.error_code) for p in t.partitions] for t in response.topics}
    assert outcomes == {
        topic_id(1): [(0, 0), (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        topic_id(99): [(0, ErrorCode.UNKNOWN_TOPIC_ID), (3, ErrorCode.UNKNOWN_TOPIC_ID)],
    }
    [asked] = backend.asked
    [offset] = asked.offsets
    assert (offset.topic, offset.partition, offset.offset, offset.topic_id) == ("t", 0, 10, topic_id(1))


async def test_a_transaction_of_a_group_that_is_gone_hears_of_it() -> None:
    backend = GroupBackend(group_pb2.CommitOffsetsResponse(error=Error(code=ErrorCode.GROUP_ID_NOT_FOUND)))
    response = await backend.answer_by_ours(commit(), TxnOffsetCommitResponse, 6)
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
