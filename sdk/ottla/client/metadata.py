"""The exchange that asks for brokers, topics and leaders, and what a response to it means.

Kafka's response lacks the eligible leaders of partitions, and fenced brokers (`ottla.client.kafka_descriptions`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.kafka.apis import METADATA
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.errors import ErrorCode
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView, build_view
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import MetadataRequest, MetadataResponse
from ottla_core.model import TopicId


def metadata(topics: Iterable[str], names: TopicNames, *, all_topics: bool = False) -> Exchange[ClusterView]:
    """Return the exchange that asks for the cluster, with some topics or with all.

    `names` learns the topics in the response. A topic that it doubts has the error LEADER_NOT_AVAILABLE in the view,
    because the broker lags, and will soon name the topic that this client knows.
    """
    named = None if all_topics else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=named, allow_auto_topic_creation=False)

    def read(response: MetadataResponse) -> ClusterView:
        brokers = [BrokerView(b.node_id, str(HostPort(b.host, b.port)), b.rack or "") for b in response.brokers]
        addresses = {broker.id: broker.address for broker in brokers}
        if all_topics:
            names.forget_others({topic.name or "" for topic in response.topics})
        number = response.controller_id
        controller = (number, addresses[number]) if number in addresses else (-1, "")
        return build_view(
            response.cluster_id or "", controller, brokers, [_learned(topic, names) for topic in response.topics]
        )

    return Exchange(METADATA, lambda _: request, read)


def _learned(topic: MetadataResponse.MetadataResponseTopic, names: TopicNames) -> TopicView:
    """Return the view of a topic in a response. `names` learns it, or forgets its name if the topic does not exist."""
    name = topic.name or ""
    code, reason = topic.error_code, ""
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        names.forget(name)
    elif not code and not names.learn(topic.topic_id, name):
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif not code:
        numbers = [partition.partition_index for partition in partitions]
        if not numbers or numbers != list(range(len(numbers))):
            # A partition is known by its place in the view. So if one were left out, another would get its number.
            code = ErrorCode.LEADER_NOT_AVAILABLE
            reason = f"a broker says that {name} has the partitions {numbers!s:.100}"
    views = () if code else tuple(map(_partition, partitions))
    return TopicView(name, TopicId(topic.topic_id), views, topic.is_internal, code, reason)


def _partition(partition: MetadataResponse.MetadataResponsePartition) -> PartitionView:
    return PartitionView(
        partition.leader_id,
        max(0, partition.leader_epoch),
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )
