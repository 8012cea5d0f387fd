"""`Client.PRODUCE` is Kafka's Produce.

Kafka's request has at most one batch of each partition, and so have the accumulator's requests
(machines/requests.py).
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import PRODUCE, Api
from ottla.client.kafka.translations.grouping import grouped
from ottla.client.kafka.translations.leaders import endpoints_of, leader_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ProduceRequest, ProduceResponse
from ottla_proto import client_pb2 as pb

_IDS_FROM: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""


class ProduceTranslation:
    """Translates batches, for which the response has offsets."""

    api: Final[Api] = PRODUCE

    def request(self, request: pb.ProduceRequest, terms: Terms) -> ProduceRequest:
        topics = grouped(
            (part.topic_id, ProduceRequest.PartitionProduceData(index=part.partition, records=part.records))
            for part in request.partitions
        )
        return ProduceRequest(
            transactional_id=request.transactional_id or None,
            acks=request.acks,
            timeout_ms=terms.timeout_ms,
            topic_data=[
                ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=partitions)
                if terms.version >= _IDS_FROM
                else ProduceRequest.TopicProduceData(name=terms.names.name_of(topic_id), partition_data=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    def response(self, response: ProduceResponse, terms: Terms) -> pb.ProduceResponse:
        endpoints = endpoints_of(response.node_endpoints)
        appended = pb.ProduceResponse()
        for topic in response.responses:
            topic_id = topic.topic_id if terms.version >= _IDS_FROM else terms.names.id_of(topic.name)
            for partition in topic.partition_responses:
                added = appended.partitions.add(
                    topic_id=topic_id,
                    partition=partition.index,
                    base_offset=partition.base_offset,
                    log_append_time_ms=partition.log_append_time_ms,
                    log_start_offset=max(0, partition.log_start_offset),
                    current_leader=leader_of(partition.current_leader, endpoints),
                )
                if partition.error_code:
                    added.error.code, added.error.message = partition.error_code, partition.error_message or ""
        return appended
