"""Broker.Produce is Kafka's Produce.

Kafka's request has at most one batch of each partition, so the accumulator makes no others
(`Door.batches_per_partition`).
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import PRODUCE, Api
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ProduceRequest, ProduceResponse
from ottla_proto import broker_pb2 as pb

_IDS_FROM: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""


class ProduceTranslation:
    """Translates batches, for which the response has offsets."""

    api: Final[Api] = PRODUCE

    def request(self, request: pb.ProduceRequest, terms: Terms) -> ProduceRequest:
        topics: dict[bytes, list[ProduceRequest.PartitionProduceData]] = {}
        for part in request.partitions:
            data = ProduceRequest.PartitionProduceData(index=part.partition, records=part.records)
            topics.setdefault(part.topic_id, []).append(data)
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
        endpoints = {node.node_id: f"{node.host}:{node.port}" for node in response.node_endpoints}
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
                )
                if partition.error_code:
                    added.error.code, added.error.message = partition.error_code, partition.error_message or ""
                if (leader := partition.current_leader) is not None and leader.leader_id in endpoints:
                    added.current_leader.broker_id = leader.leader_id
                    added.current_leader.leader_epoch = leader.leader_epoch
                    added.current_leader.address = endpoints[leader.leader_id]
        return appended
