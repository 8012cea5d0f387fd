"""Controller.DescribeQuorum is Kafka's DescribeQuorum of the one partition that has the metadata (KIP-595)."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DESCRIBE_QUORUM, Api
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import DescribeQuorumRequest, DescribeQuorumResponse
from ottla_proto import controller_pb2 as pb

_TOPIC: Final = "__cluster_metadata"
_NO_LEADER: Final = DescribeQuorumResponse.PartitionData(leader_id=-1, leader_epoch=-1, high_watermark=-1)


class DescribeQuorumTranslation:
    """Translates a request for the leader of the metadata. `epoch` is the leader's, and `revision` the high
    watermark."""

    api: Final[Api] = DESCRIBE_QUORUM

    def request(self, request: pb.DescribeQuorumRequest, terms: Terms) -> DescribeQuorumRequest:
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        return DescribeQuorumRequest(
            topics=[DescribeQuorumRequest.TopicData(topic_name=_TOPIC, partitions=[partition])]
        )

    def response(self, response: DescribeQuorumResponse, terms: Terms) -> pb.DescribeQuorumResponse:
        if response.error_code:
            return pb.DescribeQuorumResponse(error=error_of(response.error_code, response.error_message))
        found = next((each for topic in response.topics for each in topic.partitions), _NO_LEADER)
        listeners = {node.node_id: node.listeners for node in response.nodes}.get(found.leader_id) or ()
        return pb.DescribeQuorumResponse(
            error=error_of(found.error_code, found.error_message),
            leader_id=found.leader_id,
            epoch=found.leader_epoch,
            revision=found.high_watermark,
            address=next((str(HostPort(listener.host, listener.port)) for listener in listeners), ""),
        )
