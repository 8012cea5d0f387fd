"""Groups and their offsets in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ottla.client.kafka.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_COMMIT_BY_NAME,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FETCH_BY_NAME,
    SYNC_GROUP,
    AnyApi,
)
from ottla.client.kafka.translations.private import PrivateTranslation
from ottla.client.kafka.translations.table import translation_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.translation import Terms, Translation
from ottla.errors import ErrorCode
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from ottla_proto import group_pb2 as pb
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Group, Method

ID_A, ID_B = b"a" * 16, b"b" * 16
NOBODY = bytes(16)
DYNAMIC = pb.Member(member_id="m1")
STATIC = pb.Member(member_id="m2", instance_id="i2")


def known_names() -> TopicNames:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    return names


class Call:
    """One call of a method: what the broker gets, and what the caller gets."""

    def __init__(self, method: Method[Any, Any], request: Any, version: int, names: TopicNames | None = None) -> None:
        known = TopicNames() if names is None else names
        self.translation: Translation = translation_of(method, request, known)
        self.terms = Terms(version, 1500, known)
        self._request = request

    @property
    def api(self) -> AnyApi:
        return self.translation.api

    def sent(self) -> Any:
        version = self.terms.version
        message = self.translation.request(self._request, self.terms)
        return codec.decode(self.api.request, codec.encode(message, version), version)

    def got(self, response: Message) -> Any:
        version = self.terms.version
        arrived = codec.decode(self.api.response, codec.encode(response, version), version)
        return self.translation.response(arrived, self.terms)


# ---- members -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", JOIN_GROUP.versions)
@pytest.mark.parametrize("member", [pb.Member(), DYNAMIC, STATIC])
def test_a_member_joins_with_its_subscriptions(version: int, member: pb.Member) -> None:
    request = pb.JoinRequest(
        group="g",
        member=member,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[pb.Protocol(name="sticky", metadata=b"s"), pb.Protocol(name="range", metadata=b"r")],
        member_id_required=True,
        reason="it begins",
        skips_assignment=True,
    )
    sent = Call(Group.JOIN, request, version).sent()
    assert (sent.group_id, sent.member_id, sent.protocol_type) == ("g", member.member_id, "consumer")
    assert sent.group_instance_id == ("i2" if member is STATIC else None)
    assert (sent.session_timeout_ms, sent.rebalance_timeout_ms) == (6_000, 60_000)
    assert [(p.name, bytes(p.metadata)) for p in sent.protocols] == [("sticky", b"s"), ("range", b"r")]
    assert sent.reason == ("it begins" if version >= 8 else None)


@pytest.mark.parametrize("version", JOIN_GROUP.versions)
def test_a_leader_gets_the_members(version: int) -> None:
    member = JoinGroupResponse.JoinGroupResponseMember
    response = JoinGroupResponse(
        generation_id=4,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="range",
        leader="m1",
        skip_assignment=version >= 9,
        member_id="m1",
        members=[member(member_id="m1", metadata=b"1"), member(member_id="m2", group_instance_id="i2", metadata=b"2")],
    )
    joined = Call(Group.JOIN, pb.JoinRequest(), version).got(response)
    assert (joined.error.code, joined.generation, joined.protocol, joined.leader) == (0, 4, "range", "m1")
    assert joined.protocol_type == ("consumer" if version >= 7 else "")
    assert (joined.member_id, joined.skip_assignment) == ("m1", version >= 9)
    assert list(joined.members) == [
        pb.Subscriber(member=DYNAMIC, metadata=b"1"),
        pb.Subscriber(member=STATIC, metadata=b"2"),
    ]


@pytest.mark.parametrize("version", JOIN_GROUP.versions)
def test_a_new_member_is_told_its_id(version: int) -> None:
    no_protocol = None if version >= 7 else ""
    response = JoinGroupResponse(error_code=79, protocol_name=no_protocol, member_id="m1")
    joined = Call(Group.JOIN, pb.JoinRequest(), version).got(response)
    assert (joined.error.code, joined.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m1")


@pytest.mark.parametrize("version", SYNC_GROUP.versions)
def test_a_leader_sends_assignments_and_gets_its_own(version: int) -> None:
    request = pb.SyncRequest(
        group="g",
        member=STATIC,
        generation=4,
        protocol_type="consumer",
        protocol="range",
        assignments=[pb.MemberAssignment(member_id="m2", assignment=b"2")],
    )
    call = Call(Group.SYNC, request, version)
    sent = call.sent()
    assert (sent.group_id, sent.member_id, sent.group_instance_id, sent.generation_id) == ("g", "m2", "i2", 4)
    assert (sent.protocol_type, sent.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
    assert [(each.member_id, bytes(each.assignment)) for each in sent.assignments] == [("m2", b"2")]
    named: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    got = call.got(SyncGroupResponse(assignment=b"2", **named))
    assert (got.error.code, got.assignment, got.protocol) == (0, b"2", "range" if version >= 5 else "")
    assert got.protocol_type == ("consumer" if version >= 5 else "")
    assert call.got(SyncGroupResponse(error_code=27)).error.code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", HEARTBEAT.versions)
def test_a_heartbeat_names_the_member_and_tells_of_a_rebalance(version: int) -> None:
    call = Call(Group.HEARTBEAT, pb.HeartbeatRequest(group="g", member=STATIC, generation=4), version)
    sent = call.sent()
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.group_instance_id) == ("g", 4, "m2", "i2")
    assert call.got(HeartbeatResponse(error_code=27)).error.code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", LEAVE_GROUP.versions)
def test_members_leave_each_with_its_outcome(version: int) -> None:
    leavers = [pb.Leaver(member=DYNAMIC, reason="done"), pb.Leaver(member=pb.Member(instance_id="i2"))]
    call = Call(Group.LEAVE, pb.LeaveRequest(group="g", members=leavers), version)
    sent = call.sent()
    assert sent.group_id == "g"
    assert [(each.member_id, each.group_instance_id) for each in sent.members] == [("m1", None), ("", "i2")]
    assert [each.reason for each in sent.members] == (["done", ""] if version >= 5 else [None, None])
    left = LeaveGroupResponse.MemberResponse
    response = LeaveGroupResponse(
        members=[
            left(member_id="m1", group_instance_id=None, error_code=25),
            left(member_id="m2", group_instance_id="i2"),
        ]
    )
    got = call.got(response)
    assert [(each.member, each.error.code) for each in got.members] == [(DYNAMIC, 25), (STATIC, 0)]
    assert call.got(LeaveGroupResponse(error_code=16)).error.code == ErrorCode.NOT_COORDINATOR


# ---- offsets -----------------------------------------------------------------------------------------------------


def commit(*, ids: bool) -> pb.CommitOffsetsRequest:
    offsets = [
        pb.OffsetToCommit(topic="a", partition=0, offset=5, leader_epoch=0, metadata="note", topic_id=ID_A),
        pb.OffsetToCommit(topic="b", partition=0, offset=6, topic_id=ID_B if ids else b""),
        pb.OffsetToCommit(topic="a", partition=2, offset=7, leader_epoch=3, topic_id=ID_A),
    ]
    return pb.CommitOffsetsRequest(group="g", member=STATIC, generation=4, offsets=offsets)


@pytest.mark.parametrize("version", OFFSET_COMMIT.versions)
def test_offsets_are_committed_by_the_ids_of_topics_where_the_version_has_them(version: int) -> None:
    call = Call(Group.COMMIT_OFFSETS, commit(ids=True), version)
    assert call.api is OFFSET_COMMIT
    sent = call.sent()
    assert (sent.group_id, sent.member_id, sent.group_instance_id) == ("g", "m2", "i2")
    assert (sent.generation_id_or_member_epoch, sent.retention_time_ms) == (4, -1)
    names = [(topic.name, topic.topic_id) for topic in sent.topics]
    assert names == ([("", ID_A), ("", ID_B)] if version >= 10 else [("a", NOBODY), ("b", NOBODY)])
    assert [
        [(p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata) for p in t.partitions]
        for t in sent.topics
    ] == [[(0, 5, 0, "note"), (2, 7, 3, "")], [(0, 6, -1, "")]]


def test_an_offset_whose_topic_has_no_known_id_is_committed_by_name() -> None:
    call = Call(Group.COMMIT_OFFSETS, commit(ids=False), 9)
    assert (call.api, call.api.versions[-1]) == (OFFSET_COMMIT_BY_NAME, 9)
    assert [topic.name for topic in call.sent().topics] == ["a", "b"]


def committed(version: int, codes: Iterable[int]) -> OffsetCommitResponse:
    named: dict[str, Any] = {"topic_id": ID_A} if version >= 10 else {"name": "a"}
    partition = OffsetCommitResponse.OffsetCommitResponsePartition
    partitions = [partition(partition_index=n, error_code=code) for n, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponse.OffsetCommitResponseTopic(**named, partitions=partitions)])


@pytest.mark.parametrize("version", OFFSET_COMMIT.versions)
def test_each_committed_offset_has_an_outcome(version: int) -> None:
    got = Call(Group.COMMIT_OFFSETS, commit(ids=True), version).got(committed(version, [0, 12]))
    assert got.error.code == 0
    assert [(each.topic, each.partition, each.error.code) for each in got.partitions] == [("a", 0, 0), ("a", 1, 12)]


@pytest.mark.parametrize("code", [14, 15, 16, 22, 24, 25, 27, 69, 82])
def test_what_concerns_the_group_is_the_error_of_the_whole_commit(code: int) -> None:
    got = Call(Group.COMMIT_OFFSETS, commit(ids=True), 10).got(committed(10, [3, code]))
    assert (got.error.code, len(got.partitions)) == (code, 0)


def test_a_commit_that_leaves_committed_offsets_as_they_are_goes_by_the_private_api() -> None:
    request = commit(ids=True)
    request.only_first = True
    assert isinstance(translation_of(Group.COMMIT_OFFSETS, request, TopicNames()), PrivateTranslation)


def fetch(*topics: str) -> pb.FetchOffsetsRequest:
    partitions = [pb.GroupPartition(topic=topic, partition=n) for n in (0, 2) for topic in topics]
    return pb.FetchOffsetsRequest(group="g", partitions=partitions, require_stable=True)


def requested(sent: Any) -> Any:
    return sent.groups[0] if sent.groups else sent


@pytest.mark.parametrize("version", OFFSET_FETCH.versions)
def test_committed_offsets_are_asked_for_by_the_ids_of_topics_where_the_version_has_them(version: int) -> None:
    call = Call(Group.FETCH_OFFSETS, fetch("a", "b"), version, known_names())
    assert call.api is OFFSET_FETCH
    sent = call.sent()
    assert (sent.require_stable, requested(sent).group_id) == (True, "g")
    topics = requested(sent).topics
    named = [topic.topic_id if version >= 10 else topic.name for topic in topics]
    assert named == ([ID_A, ID_B] if version >= 10 else ["a", "b"])
    assert [list(topic.partition_indexes) for topic in topics] == [[0, 2], [0, 2]]


def test_topics_of_an_unknown_id_and_all_topics_are_asked_for_by_name() -> None:
    unknown = Call(Group.FETCH_OFFSETS, fetch("a", "new"), 9, known_names())
    assert (unknown.api, unknown.api.versions[-1]) == (OFFSET_FETCH_BY_NAME, 9)
    assert [topic.name for topic in requested(unknown.sent()).topics] == ["a", "new"]
    for version in (7, 8, 9):
        of_all = Call(Group.FETCH_OFFSETS, pb.FetchOffsetsRequest(group="g", all=True), version, known_names())
        assert of_all.api is OFFSET_FETCH_BY_NAME
        assert (requested(of_all.sent()).topics, of_all.sent().require_stable) == (None, False)


@pytest.mark.parametrize("version", OFFSET_FETCH.versions)
def test_committed_offsets_come_with_epoch_metadata_and_errors(version: int) -> None:
    of_one, of_several = (
        OffsetFetchResponse.OffsetFetchResponsePartition,
        OffsetFetchResponse.OffsetFetchResponsePartitions,
    )
    partition: Any = of_several if version >= 8 else of_one
    partitions = [
        partition(partition_index=0, committed_offset=5, committed_leader_epoch=0, metadata="note"),
        partition(partition_index=1, committed_offset=-1, committed_leader_epoch=-1, metadata=None),
        partition(partition_index=2, committed_offset=-1, committed_leader_epoch=-1, error_code=88),
    ]
    if version >= 8:
        named: dict[str, Any] = {"topic_id": ID_A} if version >= 10 else {"name": "a"}
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(**named, partitions=partitions)
        group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[topic])
        response = OffsetFetchResponse(groups=[group])
    else:
        response = OffsetFetchResponse(
            topics=[OffsetFetchResponse.OffsetFetchResponseTopic(name="a", partitions=partitions)]
        )
    got = Call(Group.FETCH_OFFSETS, fetch("a"), version, known_names()).got(response)
    assert got.error.code == 0
    topic_id = ID_A if version >= 10 else b""
    committed, nothing, unstable = got.offsets
    assert committed == pb.CommittedOffset(
        topic="a", error={}, offset=5, leader_epoch=0, metadata="note", topic_id=topic_id
    )
    assert (nothing.partition, nothing.offset, nothing.HasField("leader_epoch"), nothing.metadata) == (1, -1, False, "")
    assert (unstable.partition, unstable.error.code) == (2, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize("version", OFFSET_FETCH.versions)
def test_an_error_of_the_group_is_reported(version: int) -> None:
    if version >= 8:
        group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", error_code=16)
        response = OffsetFetchResponse(groups=[group])
    else:
        response = OffsetFetchResponse(error_code=16)
    got = Call(Group.FETCH_OFFSETS, fetch("a"), version, known_names()).got(response)
    assert got.error.code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", OFFSET_DELETE.versions)
def test_committed_offsets_are_deleted(version: int) -> None:
    partitions = [pb.GroupPartition(topic=topic, partition=n) for n in (0, 2) for topic in "ab"]
    call = Call(Group.DELETE_OFFSETS, pb.DeleteOffsetsRequest(group="g", partitions=partitions), version)
    sent = call.sent()
    assert sent.group_id == "g"
    assert {topic.name: [p.partition_index for p in topic.partitions] for topic in sent.topics} == {
        "a": [0, 2],
        "b": [0, 2],
    }
    partition = OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=2, error_code=86)
    topic = OffsetDeleteResponse.OffsetDeleteResponseTopic(name="b", partitions=[partition])
    (outcome,) = call.got(OffsetDeleteResponse(topics=[topic])).partitions
    assert (outcome.topic, outcome.partition, outcome.error.code) == ("b", 2, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert call.got(OffsetDeleteResponse(error_code=69)).error.code == ErrorCode.GROUP_ID_NOT_FOUND


# ---- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LIST_GROUPS.versions)
def test_groups_are_listed_by_state_and_type(version: int) -> None:
    request = pb.ListGroupsRequest(states=["Empty", "Stable"], types=["classic"] if version >= 5 else [])
    call = Call(Group.LIST_GROUPS, request, version)
    sent = call.sent()
    assert list(sent.states_filter) == ["Empty", "Stable"]
    assert list(sent.types_filter) == (["classic"] if version >= 5 else [])
    listed = ListGroupsResponse.ListedGroup(group_id="g", protocol_type="consumer", group_state="Empty")
    listed.group_type = "classic" if version >= 5 else ""
    (group,) = call.got(ListGroupsResponse(groups=[listed])).groups
    assert (group.group, group.protocol_type, group.state) == ("g", "consumer", "Empty")
    assert group.type == ("classic" if version >= 5 else "")
    assert (group.shard, group.coordinator) == (-1, -1)
    assert call.got(ListGroupsResponse(error_code=14)).error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", DESCRIBE_GROUPS.versions)
def test_groups_are_described_and_a_dead_one_does_not_exist(version: int) -> None:
    call = Call(Group.DESCRIBE_GROUPS, pb.DescribeGroupsRequest(groups=["g", "h"]), version)
    assert list(call.sent().groups) == ["g", "h"]
    member = DescribeGroupsResponse.DescribedGroupMember(
        member_id="m2",
        group_instance_id="i2",
        client_id="c",
        client_host="/h",
        member_metadata=b"m",
        member_assignment=b"a",
    )
    described = DescribeGroupsResponse.DescribedGroup
    alive = described(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    dead = described(group_id="h", group_state="Dead")
    if version >= 6:
        dead.error_code, dead.error_message = 69, "there is no h"
    g, h = call.got(DescribeGroupsResponse(groups=[alive, dead])).groups
    assert (g.error.code, g.group, g.state, g.protocol_type, g.protocol) == (0, "g", "Stable", "consumer", "range")
    assert (g.generation, g.shard, g.coordinator) == (-1, -1, -1)
    assert list(g.members) == [
        pb.MemberDescription(member=STATIC, client_id="c", client_host="/h", metadata=b"m", assignment=b"a")
    ]
    assert (h.group, h.error.code) == ("h", ErrorCode.GROUP_ID_NOT_FOUND)
    assert h.error.message == ("there is no h" if version >= 6 else "the group h does not exist")


@pytest.mark.parametrize("version", CONSUMER_GROUP_DESCRIBE.versions)
def test_consumer_groups_are_described(version: int) -> None:
    call = Call(Client.DESCRIBE_CONSUMER_GROUPS, pb.DescribeGroupsRequest(groups=["g", "h"]), version)
    assert list(call.sent().group_ids) == ["g", "h"]
    has = ConsumerGroupDescribeResponse.TopicPartitions(topic_id=b"t" * 16, topic_name="t", partitions=[0, 2])
    assignment = ConsumerGroupDescribeResponse.Assignment(topic_partitions=[has])
    member = ConsumerGroupDescribeResponse.Member(
        member_id="m2",
        instance_id="i2",
        member_epoch=8,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        assignment=assignment,
        target_assignment=ConsumerGroupDescribeResponse.Assignment(),
        member_type=0 if version else -1,
    )
    described = ConsumerGroupDescribeResponse.DescribedGroup
    alive = described(
        group_id="g", group_state="Stable", group_epoch=9, assignment_epoch=8, assignor_name="range", members=[member]
    )
    missing = described(group_id="h", error_code=69, error_message="there is no h")
    g, h = call.got(ConsumerGroupDescribeResponse(groups=[alive, missing])).groups
    assert (g.type, g.state, g.protocol_type, g.protocol) == ("consumer", "Stable", "consumer", "range")
    assert (g.generation, g.assignment_epoch, g.shard, g.coordinator) == (9, 8, -1, -1)
    (found,) = g.members
    assert (found.member, found.consumer.epoch, found.consumer.is_classic) == (STATIC, 8, version == 1)
    assert not found.consumer.HasField("rack")
    (topic,) = found.consumer.assigned.topics
    assert (topic.name, topic.topic_id, list(topic.partitions)) == ("t", b"t" * 16, [0, 2])
    assert (h.error.code, h.error.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "there is no h")


@pytest.mark.parametrize("version", DELETE_GROUPS.versions)
def test_groups_are_deleted_each_with_its_outcome(version: int) -> None:
    call = Call(Group.DELETE_GROUPS, pb.DeleteGroupsRequest(groups=["g", "h"]), version)
    assert list(call.sent().groups_names) == ["g", "h"]
    result = DeleteGroupsResponse.DeletableGroupResult
    failed = result(group_id="h", error_code=68, error_message="it has members" if version >= 3 else None)
    g, h = call.got(DeleteGroupsResponse(results=[result(group_id="g"), failed])).groups
    assert (g.group, g.error.code) == ("g", 0)
    assert (h.group, h.error.code) == ("h", ErrorCode.NON_EMPTY_GROUP)
    assert h.error.message == ("it has members" if version >= 3 else "")


@pytest.mark.story("commit-into-a-recreated-topic")
@pytest.mark.parametrize("version", [OFFSET_COMMIT.versions[0], 9])
def test_offsets_of_a_topic_that_was_replaced_are_not_committed_in_its_successor_by_name(version: int) -> None:
    names = TopicNames()
    names.learn(b"n" * 16, "a")
    names.learn(ID_B, "b")
    call = Call(Group.COMMIT_OFFSETS, commit(ids=True), version, names)
    assert [topic.name for topic in call.sent().topics] == ["b"]
    partition = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0)
    of_b = OffsetCommitResponse.OffsetCommitResponseTopic(name="b", partitions=[partition])
    outcomes = call.got(OffsetCommitResponse(topics=[of_b])).partitions
    assert [(each.topic, each.partition, each.error.code) for each in outcomes] == [
        ("b", 0, 0),
        ("a", 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", 2, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
