"""Responses of scripted brokers with one part for each partition of a request, in the request's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ottla_core.kafka.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
)

Commit: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest


def produced(
    request: ProduceRequest,
    part: Callable[
        [ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData], ProduceResponse.PartitionProduceResponse
    ],
) -> ProduceResponse:
    """Return the response to Produce."""
    of_topic = ProduceResponse.TopicProduceResponse
    return ProduceResponse(
        responses=[
            of_topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[part(topic, each) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def listed_offsets(
    request: ListOffsetsRequest,
    part: Callable[[str, ListOffsetsRequest.ListOffsetsPartition], ListOffsetsResponse.ListOffsetsPartitionResponse],
) -> ListOffsetsResponse:
    """Return the response to ListOffsets. `part` gets the name of the topic."""
    of_topic = ListOffsetsResponse.ListOffsetsTopicResponse
    return ListOffsetsResponse(
        topics=[
            of_topic(name=topic.name, partitions=[part(topic.name, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def epoch_ends(
    request: OffsetForLeaderEpochRequest,
    part: Callable[
        [str, OffsetForLeaderEpochRequest.OffsetForLeaderPartition], OffsetForLeaderEpochResponse.EpochEndOffset
    ],
) -> OffsetForLeaderEpochResponse:
    """Return the response to OffsetForLeaderEpoch. `part` gets the name of the topic."""
    of_topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    return OffsetForLeaderEpochResponse(
        topics=[
            of_topic(topic=topic.topic, partitions=[part(topic.topic, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def committed(request: Commit, response: type[Any], outcomes: Iterable[tuple[int, str]]) -> list[Any]:
    """Return the topics of a response to a commit. `outcomes` has the code and the message of each partition."""
    of_topic, of_partition = (getattr(response, f"{response.__name__}{part}") for part in ("Topic", "Partition"))
    each_outcome = iter(outcomes)
    topics = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            code, message = next(each_outcome)
            parts.append(of_partition(partition_index=part.partition_index, error_code=code, error_message=message))
        topics.append(of_topic(name=topic.name, topic_id=topic.topic_id, partitions=parts))
    return topics
