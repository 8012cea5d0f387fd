"""An operator's requests about groups in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from typing import Any

import pytest
from exchanged import meaning, sent

from ottla.admin.group_descriptions import classic, consumer, listing
from ottla.admin.group_info import GroupInfo, GroupMember, GroupSummary
from ottla.admin.groups import deletion, deletion_of_offsets
from ottla.client.kafka.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_DELETE,
)
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
    OffsetDeleteResponse,
)
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition

T0, T2 = TopicPartition("t", 0), TopicPartition("t", 2)
OF_BOTH = pytest.mark.parametrize("private", [True, False], ids=["ottla", "kafka"])
"""Brokers of ottla add private fields, and Kafka's brokers do not."""


@OF_BOTH
@pytest.mark.parametrize("version", LIST_GROUPS.versions)
def test_groups_are_listed_by_state(version: int, private: bool) -> None:
    asked = listing(["Empty", "Stable"])
    request = sent(asked, version)
    assert (list(request.states_filter), list(request.types_filter)) == (["Empty", "Stable"], [])
    listed = ListGroupsResponse.ListedGroup(
        group_id="g", protocol_type="consumer", group_state="Empty", members=3, shard=1, coordinator=4
    )
    listed.group_type = "consumer" if version >= 5 else ""
    response = ListGroupsResponse(groups=[listed], shards=[1, 2], shard_count=9)
    type_ = "consumer" if version >= 5 else "classic"
    members, coordinator, shard = (3, 4, 1) if private else (0, -1, -1)
    found = meaning(asked, response, version, private=private)
    assert found.found == [GroupSummary("g", "Empty", "consumer", members, coordinator, shard, type_)]
    assert (list(found.shards), found.shard_count) == (([1, 2], 9) if private else ([], 0))


@pytest.mark.parametrize("version", LIST_GROUPS.versions)
def test_a_coordinator_that_is_loading_can_not_list_groups(version: int) -> None:
    with pytest.raises(OttlaError) as raised:
        meaning(listing([]), ListGroupsResponse(error_code=14), version)
    assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@OF_BOTH
@pytest.mark.parametrize("version", DESCRIBE_GROUPS.versions)
def test_a_classic_group_is_described(version: int, private: bool) -> None:
    asked = classic("g")
    assert list(sent(asked, version).groups) == ["g"]
    member = DescribeGroupsResponse.DescribedGroupMember(
        member_id="m2",
        group_instance_id="i2",
        client_id="c",
        client_host="/h",
        member_metadata=encode_subscription(Subscription(("u", "t"))),
        member_assignment=encode_assignment(MemberAssignment((T2, T0))),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_500,
    )
    described = DescribeGroupsResponse.DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[member],
        generation=7,
        leader="m2",
        shard=1,
        coordinator=4,
    )
    has_more = private and version >= 5  # version 4 has no room for private fields
    timeouts = (45.0, 60.5) if has_more else (0.0, 0.0)
    found = GroupMember("m2", "i2", "c", "/h", ("t", "u"), (T0, T2), *timeouts)
    generation, leader, coordinator, shard = (7, "m2", 4, 1) if has_more else (-1, "", -1, -1)
    response = DescribeGroupsResponse(groups=[described])
    assert meaning(asked, response, version, private=private) == GroupInfo(
        "g", "Stable", "consumer", "range", generation, leader, (found,), coordinator, shard
    )


@pytest.mark.parametrize("version", DESCRIBE_GROUPS.versions)
def test_a_dead_group_does_not_exist(version: int) -> None:
    dead = DescribeGroupsResponse.DescribedGroup(group_id="h", group_state="Dead")
    if version >= 6:
        dead.error_code, dead.error_message = 69, "there is no h"
    with pytest.raises(OttlaError) as raised:
        meaning(classic("h"), DescribeGroupsResponse(groups=[dead]), version)
    assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert raised.value.message == ("there is no h" if version >= 6 else "the group h does not exist")


def of_t(*numbers: int) -> ConsumerGroupDescribeResponse.TopicPartitions:
    return ConsumerGroupDescribeResponse.TopicPartitions(topic_id=b"t" * 16, topic_name="t", partitions=numbers)


@OF_BOTH
@pytest.mark.parametrize("version", CONSUMER_GROUP_DESCRIBE.versions)
def test_a_consumer_group_is_described(version: int, private: bool) -> None:
    asked = consumer("g")
    assert list(sent(asked, version).group_ids) == ["g"]
    assignment = ConsumerGroupDescribeResponse.Assignment
    member = ConsumerGroupDescribeResponse.Member(
        member_id="m2",
        instance_id="i2",
        member_epoch=8,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["u", "t"],
        assignment=assignment(topic_partitions=[of_t(2, 0)]),
        target_assignment=assignment(),
        member_type=0 if version else -1,
        state="unrevoked-partitions",
        revoking=[of_t(1)],
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_500,
    )
    described = ConsumerGroupDescribeResponse.DescribedGroup(
        group_id="g",
        group_state="Stable",
        group_epoch=9,
        assignment_epoch=8,
        assignor_name="range",
        members=[member],
        shard=1,
        coordinator=4,
    )
    found = GroupMember(
        "m2",
        "i2",
        "c",
        "/h",
        ("t", "u"),
        (T0, T2),
        *((45.0, 60.5) if private else (0.0, 0.0)),
        epoch=8,
        state="unrevoked-partitions" if private else "",
        revoking=(TopicPartition("t", 1),) if private else (),
        protocol="classic" if version else "consumer",
    )
    coordinator, shard = (4, 1) if private else (-1, -1)
    response = ConsumerGroupDescribeResponse(groups=[described])
    assert meaning(asked, response, version, private=private) == GroupInfo(
        "g", "Stable", "consumer", "range", 9, "", (found,), coordinator, shard, "consumer", 8
    )


@pytest.mark.parametrize("version", CONSUMER_GROUP_DESCRIBE.versions)
def test_a_member_may_have_a_rack_a_regex_and_a_target(version: int) -> None:
    assignment = ConsumerGroupDescribeResponse.Assignment
    member = ConsumerGroupDescribeResponse.Member(
        rack_id="r",
        subscribed_topic_regex="t.*",
        assignment=assignment(),
        target_assignment=assignment(topic_partitions=[of_t(2)]),
    )
    described = ConsumerGroupDescribeResponse.DescribedGroup(members=[member])
    (found,) = meaning(consumer("g"), ConsumerGroupDescribeResponse(groups=[described]), version).members
    assert (found.rack, found.topic_regex, found.partitions, found.target) == ("r", "t.*", (), (T2,))


@pytest.mark.parametrize("version", CONSUMER_GROUP_DESCRIBE.versions)
def test_the_error_of_a_consumer_group_is_raised(version: int) -> None:
    described = ConsumerGroupDescribeResponse.DescribedGroup
    missing = described(group_id="h", error_code=69, error_message="there is no h")
    with pytest.raises(OttlaError, match="there is no h") as raised:
        meaning(consumer("h"), ConsumerGroupDescribeResponse(groups=[missing]), version)
    assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", DELETE_GROUPS.versions)
def test_a_group_is_deleted(version: int) -> None:
    asked = deletion("g")
    assert list(sent(asked, version).groups_names) == ["g"]
    result: Any = DeleteGroupsResponse.DeletableGroupResult
    meaning(asked, DeleteGroupsResponse(results=[result(group_id="g")]), version)
    message = "it has members" if version >= 3 else None
    failed = result(group_id="g", error_code=68, error_message=message)
    with pytest.raises(OttlaError, match=message) as raised:
        meaning(asked, DeleteGroupsResponse(results=[failed]), version)
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("version", OFFSET_DELETE.versions)
def test_committed_offsets_are_deleted(version: int) -> None:
    asked = deletion_of_offsets("g", [TopicPartition(topic, n) for n in (0, 2) for topic in "ab"])
    request = sent(asked, version)
    assert request.group_id == "g"
    numbers = {topic.name: [partition.partition_index for partition in topic.partitions] for topic in request.topics}
    assert numbers == {"a": [0, 2], "b": [0, 2]}

    def responded(code: int) -> OffsetDeleteResponse:
        partition = OffsetDeleteResponse.OffsetDeleteResponsePartition
        topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
        partitions = [partition(partition_index=0), partition(partition_index=2, error_code=code)]
        return OffsetDeleteResponse(topics=[topic(name=name, partitions=partitions) for name in "ab"])

    meaning(asked, responded(0), version)
    for response, code in (
        (responded(86), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (OffsetDeleteResponse(error_code=69), ErrorCode.GROUP_ID_NOT_FOUND),
    ):
        with pytest.raises(OttlaError) as raised:
            meaning(asked, response, version)
        assert raised.value.code == code
