"""Group.DeleteOffsets is Kafka's OffsetDelete."""

from __future__ import annotations

from typing import Final

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import OFFSET_DELETE, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import OffsetDeleteRequest, OffsetDeleteResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error


class OffsetDeleteTranslation:
    """Translates the deletion of committed offsets, with an outcome for each partition."""

    api: Final[AnyApi] = OFFSET_DELETE

    def request(self, request: pb.DeleteOffsetsRequest, terms: Terms) -> OffsetDeleteRequest:
        topics = grouped(
            (each.topic, OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=each.partition))
            for each in request.partitions
        )
        return OffsetDeleteRequest(
            group_id=request.group,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def response(self, response: OffsetDeleteResponse, terms: Terms) -> pb.DeleteOffsetsResponse:
        deleted = pb.DeleteOffsetsResponse(error=Error(code=response.error_code))
        for topic in response.topics:
            for partition in topic.partitions:
                error = Error(code=partition.error_code)
                deleted.partitions.add(topic=topic.name, partition=partition.partition_index, error=error)
        return deleted
