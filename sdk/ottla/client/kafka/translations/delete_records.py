"""Broker.DeleteRecords is Kafka's DeleteRecords, which names topics by their names."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DELETE_RECORDS, Api
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.grouping import grouped
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import DeleteRecordsRequest, DeleteRecordsResponse
from ottla_proto import client_pb2 as pb


class DeleteRecordsTranslation:
    """Translates the deletion of records before some offsets. The response has the first offsets that are left."""

    api: Final[Api] = DELETE_RECORDS

    def request(self, request: pb.DeleteRecordsRequest, terms: Terms) -> DeleteRecordsRequest:
        new = DeleteRecordsRequest.DeleteRecordsPartition
        topics = grouped(
            (part.topic_id, new(partition_index=part.partition, offset=part.before_offset))
            for part in request.partitions
        )
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(name=terms.names.name_of(topic_id), partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            timeout_ms=terms.timeout_ms,
        )

    def response(self, response: DeleteRecordsResponse, terms: Terms) -> pb.DeleteRecordsResponse:
        deleted = pb.DeleteRecordsResponse()
        for topic in response.topics:
            topic_id = terms.names.id_of(topic.name)
            for partition in topic.partitions:
                deleted.partitions.add(
                    topic_id=topic_id,
                    partition=partition.partition_index,
                    error=error_of(partition.error_code, partition.error_message),
                    low_watermark=partition.low_watermark,
                )
        return deleted
