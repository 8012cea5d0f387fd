"""Client.DESCRIBE_CONSUMER_GROUPS is Kafka's ConsumerGroupDescribe: groups of the consumer protocol (KIP-848).

Brokers of ottla add the shard and the coordinator of a group, and what a member still has to give up, in private
fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from ottla.client.kafka.apis import CONSUMER_GROUP_DESCRIBE, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

_Topic: TypeAlias = ConsumerGroupDescribeResponse.TopicPartitions
_TYPE: Final = "consumer"
_SPEAKS_CLASSIC: Final = 0


class DescribeConsumerGroupsTranslation:
    """Translates a request to describe consumer groups, and its response."""

    api: Final[AnyApi] = CONSUMER_GROUP_DESCRIBE

    def request(self, request: pb.DescribeGroupsRequest, terms: Terms) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=list(request.groups))

    def response(self, response: ConsumerGroupDescribeResponse, terms: Terms) -> pb.DescribeGroupsResponse:
        return pb.DescribeGroupsResponse(groups=map(_group, response.groups))


def _group(group: ConsumerGroupDescribeResponse.DescribedGroup) -> pb.GroupDescription:
    return pb.GroupDescription(
        error=Error(code=group.error_code, message=group.error_message or ""),
        group=group.group_id,
        type=_TYPE,
        state=group.group_state,
        protocol_type=PROTOCOL_TYPE,
        protocol=group.assignor_name,
        assignor=group.assignor_name,
        generation=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=map(_member, group.members),
        shard=group.shard,
        coordinator=group.coordinator,
    )


def _member(member: ConsumerGroupDescribeResponse.Member) -> pb.MemberDescription:
    assigned, target = member.assignment, member.target_assignment
    return pb.MemberDescription(
        member=pb.Member(member_id=member.member_id, instance_id=member.instance_id),
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=max(0, member.session_timeout_ms),
        rebalance_timeout_ms=max(0, member.rebalance_timeout_ms),
        consumer=pb.ConsumerMember(
            epoch=member.member_epoch,
            rack=member.rack_id,
            topics=member.subscribed_topic_names,
            topic_regex=member.subscribed_topic_regex,
            assigned=_partitions(assigned.topic_partitions if assigned else ()),
            target=_partitions(target.topic_partitions if target else ()),
            is_classic=member.member_type == _SPEAKS_CLASSIC,
            state=member.state,
            revoking=_partitions(member.revoking),
        ),
    )


def _partitions(topics: Iterable[_Topic]) -> pb.AssignedPartitions:
    return pb.AssignedPartitions(
        topics=[pb.AssignedTopic(topic_id=t.topic_id, name=t.topic_name, partitions=t.partitions) for t in topics]
    )
