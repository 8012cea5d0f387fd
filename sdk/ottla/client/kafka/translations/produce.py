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

    def __init__(self) -> None:
        # The response has the same names, but by then the client may have forgotten them, or know another topic by one.
        self._ids: Final[dict[str, bytes]] = {}

    def request(self, request: pb.ProduceRequest, terms: Terms) -> ProduceRequest:
        topics = grouped(
            (part.topic_id, ProduceRequest.PartitionProduceData(index=part.partition, records=part.records))
            for part in request.partitions
        )
        if terms.version < _IDS_FROM:
            self._ids.update((terms.names.name_of(topic_id), topic_id) for topic_id in topics)
            named = [
                ProduceRequest.TopicProduceData(name=name, partition_data=topics[topic_id])
                for name, topic_id in self._ids.items()
            ]
        else:
            named = [
                ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=partitions)
                for topic_id, partitions in topics.items()
            ]
        return ProduceRequest(
            transactional_id=request.transactional_id or None,
            acks=request.acks,
            timeout_ms=terms.timeout_ms,
            topic_data=named,
        )

    def response(self, response: ProduceResponse, terms: Terms) -> pb.ProduceResponse:
        endpoints = endpoints_of(response.node_endpoints)
        appended = pb.ProduceResponse()
        for topic in response.responses:
            topic_id = topic.topic_id if terms.version >= _IDS_FROM else self._ids.get(topic.name, bytes(16))
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
