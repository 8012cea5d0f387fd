"""`Client.METADATA` is Kafka's Metadata.

Kafka's response lacks the eligible leaders of partitions, and fenced brokers.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import METADATA, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import MetadataRequest, MetadataResponse
from ottla_proto import client_pb2 as pb
from ottla_proto.common_pb2 import Error


class MetadataTranslation:
    """Translates a request for brokers, topics and leaders."""

    api: Final[AnyApi] = METADATA

    def __init__(self) -> None:
        self._all_topics = False

    def request(self, request: pb.MetadataRequest, terms: Terms) -> MetadataRequest:
        self._all_topics = request.all_topics
        topics = None if request.all_topics else [MetadataRequest.MetadataRequestTopic(name=n) for n in request.topics]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def response(self, response: MetadataResponse, terms: Terms) -> pb.MetadataResponse:
        brokers = {broker.node_id: str(HostPort(broker.host, broker.port)) for broker in response.brokers}
        found = pb.MetadataResponse(cluster_id=response.cluster_id or "", error=Error(code=response.error_code))
        for broker in response.brokers:
            found.brokers.add(id=broker.node_id, address=brokers[broker.node_id], rack=broker.rack or "")
        if response.controller_id in brokers:
            found.controller.id, found.controller.address = response.controller_id, brokers[response.controller_id]
        if self._all_topics and not response.error_code:
            terms.names.forget_others({topic.name or "" for topic in response.topics})
        for topic in response.topics:
            name = topic.name or ""
            added = found.topics.add(name=name, topic_id=topic.topic_id, is_internal=topic.is_internal)
            added.error.code = topic.error_code
            if not topic.error_code:
                if not terms.names.learn(topic.topic_id, name):
                    # The broker lags. Soon it names the topic that this client knows.
                    added.error.code = ErrorCode.LEADER_NOT_AVAILABLE
                    continue
            elif topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                terms.names.forget(name)
            for partition in topic.partitions:
                added.partitions.add(
                    error=Error(code=partition.error_code),
                    partition=partition.partition_index,
                    leader=partition.leader_id,
                    leader_epoch=max(0, partition.leader_epoch),
                    replicas=partition.replica_nodes,
                    isr=partition.isr_nodes,
                    offline_replicas=partition.offline_replicas,
                )
        return found
