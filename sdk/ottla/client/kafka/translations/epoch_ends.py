"""Broker.OffsetsForLeaderEpoch is Kafka's OffsetForLeaderEpoch, which names topics by their names."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import OFFSET_FOR_LEADER_EPOCH, AnyApi
from ottla.client.kafka.translations.named_topics import NamedTopics
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla_proto import client_pb2 as pb
from ottla_proto.broker_pb2 import EpochEnd
from ottla_proto.common_pb2 import Error

_CONSUMER: Final = -1


class EpochEndsTranslation:
    """Translates a request for the offsets at which leader epochs end."""

    api: Final[AnyApi] = OFFSET_FOR_LEADER_EPOCH

    def __init__(self) -> None:
        self._topics: Final = NamedTopics()

    def request(self, request: pb.OffsetsForLeaderEpochRequest, terms: Terms) -> OffsetForLeaderEpochRequest:
        topics = self._topics.group(request.partitions, _partition, terms.names)
        return OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=parts)
                for name, parts in topics.items()
            ],
        )

    def response(self, response: OffsetForLeaderEpochResponse, terms: Terms) -> pb.OffsetsForLeaderEpochResponse:
        return pb.OffsetsForLeaderEpochResponse(
            partitions=[
                pb.EpochEndOfPartition(
                    topic_id=topic_id,
                    partition=partition.partition,
                    error=Error(code=partition.error_code),
                    end=EpochEnd(leader_epoch=partition.leader_epoch, end_offset=partition.end_offset),
                )
                for topic_id, partition in self._topics.with_ids((t.topic, t.partitions) for t in response.topics)
            ]
        )


def _partition(part: pb.EpochOfPartition) -> OffsetForLeaderEpochRequest.OffsetForLeaderPartition:
    return OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=part.partition,
        current_leader_epoch=part.current_leader_epoch if part.HasField("current_leader_epoch") else -1,
        leader_epoch=part.leader_epoch,
    )
