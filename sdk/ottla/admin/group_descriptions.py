"""The exchanges that list and describe groups, and what their responses mean.

Brokers of ottla add the shard and the coordinator of a group, how many members it has, what a member still has to give
up and the like, in private fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from ottla.admin.group_info import CLASSIC, CONSUMER, GroupInfo, GroupMember, GroupSummary
from ottla.client import described_groups
from ottla.client.described_groups import DescribedGroup
from ottla.client.kafka.apis import CONSUMER_GROUP_DESCRIBE, LIST_GROUPS
from ottla.client.kafka.exchange import Exchange, raise_failed
from ottla.client.named_coordinators import Listing
from ottla.errors import OttlaError
from ottla_core.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla_core.model import TopicPartition

_Topic: TypeAlias = ConsumerGroupDescribeResponse.TopicPartitions

_SPEAKS_CLASSIC: Final = 0
"""The type of a member that speaks the classic protocol."""


def listing(states: Sequence[str]) -> Exchange[Listing[GroupSummary]]:
    """Return the exchange that lists the groups of one broker: all of them, or those in some states."""

    def read(response: ListGroupsResponse) -> Listing[GroupSummary]:
        return Listing([_summary(group) for group in response.groups], response.shards, response.shard_count)

    request = ListGroupsRequest(states_filter=list(states or ()))
    return Exchange(LIST_GROUPS, lambda _: request, read)


def _summary(group: ListGroupsResponse.ListedGroup) -> GroupSummary:
    return GroupSummary(
        group.group_id,
        group.group_state,
        group.protocol_type,
        max(0, group.members),
        group.coordinator,
        group.shard,
        group.group_type or CLASSIC,
    )


def classic(group: str) -> Exchange[GroupInfo]:
    """Return the exchange that describes a classic group."""
    return described_groups.description(group, _classic_group)


def _classic_group(group: DescribedGroup) -> GroupInfo:
    are_consumers = group.protocol_type == PROTOCOL_TYPE
    return GroupInfo(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        group.generation,
        group.leader,
        tuple(_classic_member(member, are_consumers) for member in group.members),
        group.coordinator,
        group.shard,
    )


def _classic_member(member: DescribeGroupsResponse.DescribedGroupMember, is_consumer: bool) -> GroupMember:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    if is_consumer and member.member_metadata:
        try:
            topics = tuple(sorted(decode_subscription(member.member_metadata).topics))
            partitions = tuple(sorted(decode_assignment(member.member_assignment).partitions))
        except OttlaError:
            pass  # only the members understand these bytes; everything else is returned nevertheless
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        partitions,
        max(0, member.session_timeout_ms) / 1000,
        max(0, member.rebalance_timeout_ms) / 1000,
    )


def consumer(group: str) -> Exchange[GroupInfo]:
    """Return the exchange that describes a group of the consumer protocol (KIP-848)."""

    def read(response: ConsumerGroupDescribeResponse) -> GroupInfo:
        described = response.groups[0]
        raise_failed(described)
        return _consumer_group(described)

    return Exchange(CONSUMER_GROUP_DESCRIBE, lambda _: ConsumerGroupDescribeRequest(group_ids=[group]), read)


def _consumer_group(group: ConsumerGroupDescribeResponse.DescribedGroup) -> GroupInfo:
    return GroupInfo(
        group.group_id,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        group.group_epoch,
        "",
        tuple(map(_consumer_member, group.members)),
        group.coordinator,
        group.shard,
        CONSUMER,
        group.assignment_epoch,
    )


def _consumer_member(member: ConsumerGroupDescribeResponse.Member) -> GroupMember:
    assigned, target = member.assignment, member.target_assignment
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(sorted(member.subscribed_topic_names)),
        _partitions(assigned.topic_partitions if assigned else ()),
        max(0, member.session_timeout_ms) / 1000,
        max(0, member.rebalance_timeout_ms) / 1000,
        member.member_epoch,
        member.state,
        _partitions(target.topic_partitions if target else ()),
        _partitions(member.revoking),
        member.subscribed_topic_regex,
        member.rack_id,
        CLASSIC if member.member_type == _SPEAKS_CLASSIC else CONSUMER,
    )


def _partitions(topics: Iterable[_Topic]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic.topic_name, n) for topic in topics for n in topic.partitions))
