"""What a member does with committed offsets where Kafka's protocol differs from our own contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from answering import Answer, AnsweringBrokers

from ottla.client.cluster import ClusterClient
from ottla.client.condition import Condition
from ottla.client.kafka.apis import OFFSET_COMMIT, OFFSET_FETCH
from ottla.client.offsets import OffsetAndMetadata
from ottla.consumer.group.commits import Commits
from ottla.consumer.group.coordinator import CoordinatorClient
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla_core.kafka.messages import (
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.model import TopicId, TopicPartition
from ottla_proto import group_pb2 as pb

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def brokers() -> AnsweringBrokers:
    """A coordinator with a committed offset for one partition. Like Kafka's coordinators, it has no request that
    commits only where nothing is committed."""
    brokers = AnsweringBrokers({OFFSET_FETCH.name: fetched, OFFSET_COMMIT.name: committed}, a=2)
    brokers.coordinators = {"g": "b0:1"}
    return brokers


@pytest.fixture
def commits(brokers: AnsweringBrokers) -> Iterator[Commits]:
    member: Any = SimpleNamespace(commits_as=MemberIdentity("m", 3, None))
    cluster = ClusterClient(["b0:1"], brokers.connect)
    yield Commits(member, CoordinatorClient(cluster, "g", 5.0), cluster, Condition(), lambda: None, lambda _: {})
    cluster.close()


def fetched(request: OffsetFetchRequest) -> OffsetFetchResponse:
    return responded(request, lambda number: {"committed_offset": 7 if number == 1 else -1})


def refused(code: ErrorCode) -> Callable[[OffsetFetchRequest], OffsetFetchResponse]:
    return lambda request: responded(request, lambda _: {"committed_offset": -1, "error_code": code})


def responded(request: OffsetFetchRequest, read: Callable[[int], dict[str, Any]]) -> OffsetFetchResponse:
    topic, partition = OffsetFetchResponse.OffsetFetchResponseTopics, OffsetFetchResponse.OffsetFetchResponsePartitions
    (group,) = request.groups
    (asked,) = group.topics or ()
    partitions = [partition(partition_index=number, **read(number)) for number in asked.partition_indexes]
    topics = [topic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)]
    return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=topics)])


def committed(request: OffsetCommitRequest) -> OffsetCommitResponse:
    partition = OffsetCommitResponse.OffsetCommitResponsePartition
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[partition(partition_index=each.partition_index) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def test_a_coordinator_of_ottla_commits_start_offsets_where_nothing_is_committed(
    brokers: AnsweringBrokers, commits: Commits
) -> None:
    brokers.answers["Group.CommitOffsets"] = OttlaCallResponse()
    commits.commit_first({A0: OffsetAndMetadata(20), A1: OffsetAndMetadata(30)})
    (call,) = brokers.requests(OttlaCallRequest)
    request = pb.CommitOffsetsRequest.FromString(call.body)
    assert (request.only_first, [(o.partition, o.offset) for o in request.offsets]) == (True, [(0, 20), (1, 30)])
    assert (request.member.member_id, request.generation) == ("m", 3)
    assert brokers.requests(OffsetCommitRequest) == []


def test_a_member_commits_start_offsets_where_nothing_is_committed(brokers: AnsweringBrokers, commits: Commits) -> None:
    commits.commit_first({A0: OffsetAndMetadata(20), A1: OffsetAndMetadata(30)})
    (request,) = brokers.requests(OffsetCommitRequest)
    assert [(p.partition_index, p.committed_offset) for p in request.topics[0].partitions] == [(0, 20)]
    assert (request.member_id, request.generation_id_or_member_epoch) == ("m", 3)


def test_a_topic_id_that_the_coordinator_does_not_know_is_looked_up_again(
    brokers: AnsweringBrokers, commits: Commits
) -> None:
    loading, unknown = refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), refused(ErrorCode.UNKNOWN_TOPIC_ID)
    answers: list[Answer] = [loading, unknown, fetched]
    brokers.answers[OFFSET_FETCH.name] = answers
    topic_ids: dict[TopicPartition, TopicId] = {}
    assert commits.fetch([A0, A1], 5.0, topic_ids) == {A1: OffsetAndMetadata(7)}
    assert topic_ids == {A1: brokers.topic_id("a")}
    assert [[topic.name for topic in asked.topics] for asked in brokers.requests(MetadataRequest)] == [["a"]]
    versions = [version for _, version, request in brokers.asked if isinstance(request, OffsetFetchRequest)]
    assert versions == [9, 9, 10], "a request has the id once it is known"
    brokers.answers[OFFSET_FETCH.name] = unknown
    with pytest.raises(OttlaError) as raised:
        commits.fetch([A0, A1], 0.0)
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_ID
