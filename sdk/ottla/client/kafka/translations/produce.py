"""`Client.PRODUCE` is Kafka's Produce.

Kafka's request has at most one batch of each partition, and so have the accumulator's requests
(machines/requests.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import PRODUCE, AnyApi
from ottla.client.kafka.translations.leaders import endpoints_of, leader_of
from ottla.client.kafka.translations.named_topics import NamedTopics
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ProduceRequest, ProduceResponse
from ottla_proto import client_pb2 as pb

_PartitionResponse: TypeAlias = ProduceResponse.PartitionProduceResponse

_IDS_FROM: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""


class ProduceTranslation:
    """Translates batches, for which the response has offsets."""

    api: Final[AnyApi] = PRODUCE

    def __init__(self) -> None:
        self._topics: Final = NamedTopics()

    def request(self, request: pb.ProduceRequest, terms: Terms) -> ProduceRequest:
        if terms.version < _IDS_FROM:
            by_name = self._topics.group(request.partitions, _partition, terms.names)
            topics = [ProduceRequest.TopicProduceData(name=name, partition_data=by_name[name]) for name in by_name]
        else:
            by_id = grouped((part.topic_id, _partition(part)) for part in request.partitions)
            topics = [ProduceRequest.TopicProduceData(topic_id=id_, partition_data=by_id[id_]) for id_ in by_id]
        return ProduceRequest(
            transactional_id=request.transactional_id or None,
            acks=request.acks,
            timeout_ms=terms.timeout_ms,
            topic_data=topics,
        )

    def response(self, response: ProduceResponse, terms: Terms) -> pb.ProduceResponse:
        endpoints = endpoints_of(response.node_endpoints)
        appended = pb.ProduceResponse()
        for topic_id, partition in self._with_ids(response, terms.version):
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

    def _with_ids(self, response: ProduceResponse, version: int) -> Iterable[tuple[bytes, _PartitionResponse]]:
        topics = response.responses
        if version < _IDS_FROM:
            return self._topics.with_ids((topic.name, topic.partition_responses) for topic in topics)
        return ((topic.topic_id, partition) for topic in topics for partition in topic.partition_responses)


def _partition(part: pb.PartitionRecords) -> ProduceRequest.PartitionProduceData:
    return ProduceRequest.PartitionProduceData(index=part.partition, records=part.records)
