"""Controller.ElectLeaders is Kafka's ElectLeaders.

Kafka's response does not say who was elected, so `leader` is -1.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import ELECT_LEADERS, Api
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.grouping import grouped
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ElectLeadersRequest, ElectLeadersResponse
from ottla_core.model import NO_LEADER
from ottla_proto import controller_pb2 as pb


class ElectLeadersTranslation:
    """Translates a request to elect leaders, with a result for each partition."""

    api: Final[Api] = ELECT_LEADERS

    def request(self, request: pb.ElectLeadersRequest, terms: Terms) -> ElectLeadersRequest:
        numbers = grouped((partition.topic, partition.partition) for partition in request.partitions)
        topics = [ElectLeadersRequest.TopicPartitions(topic=t, partitions=found) for t, found in numbers.items()]
        return ElectLeadersRequest(
            election_type=request.type,  # the contract's numbers are Kafka's
            topic_partitions=None if request.all_partitions else topics,
            timeout_ms=terms.timeout_ms,
        )

    def response(self, response: ElectLeadersResponse, terms: Terms) -> pb.ElectLeadersResponse:
        elected = pb.ElectLeadersResponse(error=error_of(response.error_code))
        for topic in response.replica_election_results:
            for partition in topic.partition_result:
                elected.partitions.add(
                    topic=topic.topic,
                    partition=partition.partition_id,
                    error=error_of(partition.error_code, partition.error_message),
                    leader=NO_LEADER,
                )
        return elected
