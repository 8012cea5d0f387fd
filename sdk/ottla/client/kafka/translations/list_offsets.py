"""Broker.ListOffsets is Kafka's ListOffsets, which names topics by their names."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import LIST_OFFSETS, Api
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ListOffsetsRequest, ListOffsetsResponse
from ottla_proto import broker_pb2 as pb

_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1


class ListOffsetsTranslation:
    """Translates a request for the offsets at some timestamps."""

    api: Final[Api] = LIST_OFFSETS

    def __init__(self) -> None:
        self._ids: Final[dict[str, bytes]] = {}

    def request(self, request: pb.ListOffsetsRequest, terms: Terms) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
        for part in request.partitions:
            name = terms.names.name_of(part.topic_id)
            self._ids[name] = part.topic_id
            topics.setdefault(name, []).append(
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=part.partition,
                    current_leader_epoch=part.current_leader_epoch if part.HasField("current_leader_epoch") else -1,
                    timestamp=part.timestamp_ms,
                )
            )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=_READ_COMMITTED if request.read_committed else 0,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
            timeout_ms=terms.timeout_ms,
        )

    def response(self, response: ListOffsetsResponse, terms: Terms) -> pb.ListOffsetsResponse:
        return pb.ListOffsetsResponse(
            partitions=[
                pb.PartitionOffset(
                    topic_id=self._ids[topic.name],
                    partition=partition.partition_index,
                    error=error_of(partition.error_code, partition.error_message),
                    offset=partition.offset,
                    timestamp_ms=partition.timestamp,
                    leader_epoch=partition.leader_epoch,
                )
                for topic in response.topics
                if topic.name in self._ids
                for partition in topic.partitions
            ]
        )
