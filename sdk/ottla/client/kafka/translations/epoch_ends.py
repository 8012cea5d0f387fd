"""Broker.OffsetsForLeaderEpoch is Kafka's OffsetForLeaderEpoch, which names topics by their names."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import OFFSET_FOR_LEADER_EPOCH, Api
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla_proto import broker_pb2 as pb
from ottla_proto.common_pb2 import Error

_CONSUMER: Final = -1


class EpochEndsTranslation:
    """Translates a request for the offsets at which leader epochs end."""

    api: Final[Api] = OFFSET_FOR_LEADER_EPOCH

    def __init__(self) -> None:
        self._ids: Final[dict[str, bytes]] = {}

    def request(self, request: pb.OffsetsForLeaderEpochRequest, terms: Terms) -> OffsetForLeaderEpochRequest:
        topics: dict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]] = {}
        for part in request.partitions:
            name = terms.names.name_of(part.topic_id)
            self._ids[name] = part.topic_id
            topics.setdefault(name, []).append(
                OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                    partition=part.partition,
                    current_leader_epoch=part.current_leader_epoch if part.HasField("current_leader_epoch") else -1,
                    leader_epoch=part.leader_epoch,
                )
            )
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
                    topic_id=self._ids[topic.topic],
                    partition=partition.partition,
                    error=Error(code=partition.error_code),
                    end=pb.EpochEnd(leader_epoch=partition.leader_epoch, end_offset=partition.end_offset),
                )
                for topic in response.topics
                if topic.topic in self._ids
                for partition in topic.partitions
            ]
        )
