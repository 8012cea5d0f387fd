"""admin.groups: who is asked, until when, and what its answers come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from answering import Answer, AnsweringBrokers
from exchanged import meaning

import ottla
from ottla.admin import private_calls
from ottla.admin.group_info import HeldPartitions
from ottla.admin.groups import Groups
from ottla.client.kafka.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    AnyApi,
)
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.kafka.messages import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error, ShardsResponse, ShardStanding
from ottla_proto.contracts import Group, Method

B0, B1 = "b0:1", "b1:1"
T0 = TopicPartition("t", 0)


class Cluster(AnsweringBrokers):
    """Two brokers. The first one is the coordinator of the groups g and biling."""

    def __init__(self) -> None:
        super().__init__(brokers=2)
        self.coordinators = {"g": B0, "biling": B0}

    def answer(self, what: AnyApi | Method[Any, Any], *answers: Answer) -> None:
        name = f"{what.service}.{what.name}" if isinstance(what, Method) else what.name
        self.answers[name] = list(answers)

    def calls(self) -> list[tuple[str, Any]]:
        """Return the address and the request of each call, without those that look for an address."""
        finds = MetadataRequest | FindCoordinatorRequest
        return [(address, request) for address, _, request in self.asked if not isinstance(request, finds)]

    def callees(self) -> list[str]:
        return [address for address, _ in self.calls()]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def groups(cluster: Cluster) -> Iterator[Groups]:
    with ottla.Admin(B0, request_timeout=5.0, _transport=cluster.connect) as admin:
        yield admin.groups


def private(message: Any) -> OttlaCallResponse:
    return OttlaCallResponse(body=message.SerializeToString())


def refused(code: ErrorCode) -> Error:
    return Error(code=code, message="no")


def described(
    *members: DescribeGroupsResponse.DescribedGroupMember,
    code: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
    protocol_type: str = "consumer",
) -> DescribeGroupsResponse:
    group = DescribeGroupsResponse.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id="g",
        group_state="Stable",
        protocol_type=protocol_type,
        members=members,
    )
    return DescribeGroupsResponse(groups=[group])


def member(
    member_id: str, instance_id: str | None = None, metadata: bytes = b""
) -> DescribeGroupsResponse.DescribedGroupMember:
    return DescribeGroupsResponse.DescribedGroupMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_host="h1",
        member_metadata=metadata or encode_subscription(Subscription(("u", "t"))),
        member_assignment=encode_assignment(MemberAssignment((TopicPartition("t", 1), TopicPartition("t", 0)))),
        session_timeout_ms=45_000,
    )


def listing(*groups: str, of_shards: Sequence[int]) -> ListGroupsResponse:
    listed = [ListGroupsResponse.ListedGroup(group_id=group, members=2) for group in groups]
    return ListGroupsResponse(groups=listed, shards=of_shards, shard_count=2)


def committed(*offsets: tuple[str, int, int], code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    """Return a response with (topic, partition, offset), in this order. All have the code."""
    topics = [
        OffsetFetchResponse.OffsetFetchResponseTopics(
            name=topic,
            partitions=[
                OffsetFetchResponse.OffsetFetchResponsePartitions(
                    partition_index=number, committed_offset=offset, error_code=code
                )
            ],
        )
        for topic, number, offset in offsets
    ]
    return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=topics)])


def of_commit(*codes: ErrorCode) -> OffsetCommitResponse:
    """Return a response with the codes of the first partitions of t."""
    partition = OffsetCommitResponse.OffsetCommitResponsePartition
    partitions = [partition(partition_index=number, error_code=code) for number, code in enumerate(codes)]
    return OffsetCommitResponse(
        topics=[OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=partitions)]
    )


def of_deletion(code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeleteGroupsResponse.DeletableGroupResult(group_id="g", error_code=code)])


def of_departure(code: ErrorCode = ErrorCode.NONE) -> LeaveGroupResponse:
    return LeaveGroupResponse(members=[LeaveGroupResponse.MemberResponse(error_code=code)])


@pytest.mark.feature(65)
@pytest.mark.parametrize(("name", "address"), [("billing", B0), ("audit", B1)])
def test_the_coordinator_of_the_group_is_asked(cluster: Cluster, groups: Groups, name: str, address: str) -> None:
    cluster.coordinators = {"billing": B0, "audit": B1}
    cluster.answer(DESCRIBE_GROUPS, described())
    groups.describe(name)
    ((asked, request),) = cluster.calls()
    assert (asked, list(request.groups)) == (address, [name])


@pytest.mark.parametrize(
    "first",
    [
        error_from_code(ErrorCode.NOT_COORDINATOR, "moved"),
        error_from_code(ErrorCode.NETWORK_EXCEPTION, "gone"),
        described(code=ErrorCode.NOT_COORDINATOR),
        described(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_request_follows_its_group_to_the_next_coordinator(cluster: Cluster, groups: Groups, first: Any) -> None:
    cluster.answer(DESCRIBE_GROUPS, first, described())
    groups._coordinators.of("g", timeout=1)
    cluster.coordinators = {"g": B1}
    assert groups.describe("g").state == "Stable"
    assert cluster.callees() == [B0, B1]


def test_a_group_without_a_coordinator_is_waited_for(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(DESCRIBE_GROUPS, described())
    cluster.coordinators = {}
    with pytest.raises(OttlaError, match="no coordinator at the moment") as raised:
        groups.describe("g", timeout=0.2)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.calls() == []


def test_a_list_is_of_all_coordinators_or_none(cluster: Cluster, groups: Groups) -> None:
    loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.answer(LIST_GROUPS, loading, {B0: listing("b", of_shards=[0]), B1: listing("a", of_shards=[1])})
    assert [(g.name, g.members) for g in groups.list(states=["Stable"])] == [("a", 2), ("b", 2)]
    assert cluster.callees() == [B0, B0, B1]
    assert [list(request.states_filter) for request in cluster.requests(ListGroupsRequest)] == [["Stable"]] * 3


@pytest.mark.story("listings-that-are-short")
def test_a_list_without_a_shard_that_changes_hands_is_no_list(cluster: Cluster, groups: Groups) -> None:
    """The former owner has given the shard up, and the new one does not know yet that it has it."""
    first, second = listing("a", of_shards=[0]), listing("b", of_shards=[1])
    short: Answer = {B0: first, B1: listing(of_shards=[])}
    cluster.answer(LIST_GROUPS, short, short, {B0: first, B1: second})
    assert [found.name for found in groups.list()] == ["a", "b"]
    cluster.answer(LIST_GROUPS, short)
    with pytest.raises(OttlaError, match="no group-coordinator can list 1 shard") as raised:
        groups.list(timeout=0.1)
    assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_one_broker_reports_the_state_of_every_shard(cluster: Cluster, groups: Groups) -> None:
    served = ShardStanding(shard=0, coordinator=4, phase="serving", for_ms=1500, next_offset=7)
    stuck = ShardStanding(shard=2, coordinator=5, phase="loading", for_ms=61_000, trouble="a CRC", unreadable=3)
    unowned = ShardStanding(shard=1, coordinator=-1, phase="unowned")
    cluster.answer(Group.SHARDS, private(ShardsResponse(shards=[stuck, unowned, served])))
    told = groups.shards()
    assert [(s.shard, s.coordinator, s.phase, s.seconds, s.next_offset, s.trouble, s.unreadable) for s in told] == [
        (0, 4, "serving", 1.5, 7, "", 0),
        (1, None, "unowned", 0.0, None, "", 0),
        (2, 5, "loading", 61.0, 0, "a CRC", 3),
    ]
    assert [s.is_good for s in told] == [True, False, False]
    assert [call.method for call in cluster.requests(OttlaCallRequest)] == [Group.SHARDS.path]


def test_the_error_for_an_unknown_group_suggests_the_nearest_names(cluster: Cluster, groups: Groups) -> None:
    """The group may have been created meanwhile, but its own name is no suggestion."""
    cluster.answer(LIST_GROUPS, listing("billing", "biling", of_shards=[0, 1]))
    cluster.answer(Group.LAG, private(pb.LagResponse(error=refused(ErrorCode.GROUP_ID_NOT_FOUND))))
    with pytest.raises(OttlaError, match="the group 'biling' does not exist") as raised:
        groups.lag("biling")
    assert len(cluster.requests(OttlaCallRequest)) == 1, "another request would not help"
    assert (raised.value.code, raised.value.hint) == (ErrorCode.GROUP_ID_NOT_FOUND, "did you mean billing?")
    cluster.answer(DESCRIBE_GROUPS, described(code=ErrorCode.GROUP_ID_NOT_FOUND))
    assert not groups.exists("biling")


def test_a_missing_group_has_no_committed_offsets_if_it_may_be_missing(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(OFFSET_FETCH, committed())
    cluster.answer(DESCRIBE_GROUPS, described(code=ErrorCode.GROUP_ID_NOT_FOUND))
    cluster.answer(LIST_GROUPS, listing(of_shards=[0, 1]))
    assert groups.committed("g", if_missing="ok") == {}
    with pytest.raises(OttlaError) as raised:
        groups.committed("g")
    assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    wrong: Any = "no"
    with pytest.raises(ottla.ConfigError, match="if_missing"):
        groups.committed("g", if_missing=wrong)


def test_the_topics_and_partitions_of_consumers_are_decoded(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(DESCRIBE_GROUPS, described(member("m1", "i1"), member("m2", metadata=b"\x00")))
    first, second = groups.members("g")
    assert (first.name, first.topics, first.session_timeout) == ("i1", ("t", "u"), 45.0)
    assert first.partitions == (T0, TopicPartition("t", 1))
    assert (second.name, second.topics, second.partitions) == ("m2", (), ())
    cluster.answer(DESCRIBE_GROUPS, described(member("m1"), protocol_type="connect"))
    (worker,) = groups.members("g")
    assert (worker.name, worker.topics, worker.partitions) == ("m1", (), ())


def test_lag_is_in_records_and_seconds(cluster: Cluster, groups: Groups) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    common: dict[str, Any] = {"log_start_offset": 2, "log_end_offset": 9}
    partitions = [
        pb.PartitionLag(topic="t", partition=0, committed=5, records=4, oldest_unread_ms=now_ms - 60_000, **common),
        pb.PartitionLag(topic="t", partition=1, committed=9, records=0, **common),
        pb.PartitionLag(topic="t", partition=2, committed=-1, records=-1, **common),
        pb.PartitionLag(topic="t", partition=3, committed=1, error=refused(ErrorCode.LEADER_NOT_AVAILABLE)),
        pb.PartitionLag(topic="t", partition=4, committed=5, records=1, oldest_unread_ms=now_ms + 9_000, **common),
    ]
    cluster.answer(Group.LAG, private(pb.LagResponse(partitions=partitions)))
    lag = groups.lag("g")
    assert [(p.committed, p.end, p.records) for p in lag.partitions] == [
        (5, 9, 4),
        (9, 9, 0),
        (None, 9, None),
        (1, None, None),
        (5, 9, 1),
    ]
    ages = [p.seconds for p in lag.partitions]
    assert ages[0] == pytest.approx(60, abs=2)
    assert ages[1:] == [0.0, None, None, 0.0], "a record of the future is no younger than new"
    assert lag.partitions[3].error is not None
    assert lag.partitions[3].error.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (lag.records, lag.seconds) == (5, ages[0])


@pytest.mark.story("committed-offsets-in-no-order")
def test_committed_offsets_are_sorted_by_partition(cluster: Cluster, groups: Groups) -> None:
    """Kafka's brokers list them in no order."""
    cluster.answer(OFFSET_FETCH, committed(("u", 0, 0), ("t", 10, 10), ("t", 2, 2)))
    assert list(groups.committed("g").items()) == [(("t", 2), 2), (("t", 10), 10), (("u", 0), 0)]


def test_a_partition_whose_committed_offset_is_not_known_is_an_error(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(OFFSET_FETCH, committed(("t", 0, -1), code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(OttlaError) as raised:
        groups.committed("g", if_missing="ok")
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.story("no-lag-with-apache-kafka")
def test_ages_of_lag_are_counted_up_to_the_response() -> None:
    clock = [0]
    asked = private_calls.lag("g", lambda: clock[0])
    clock[0] = 60_000
    of_partition = pb.PartitionLag(topic="t", committed=5, records=4, oldest_unread_ms=20_000)
    found = meaning(asked, private(pb.LagResponse(partitions=[of_partition])), 0)
    assert found.seconds == 40.0


def test_lag_is_measured_where_the_coordinator_can_not_tell_it(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(Group.LAG, error_from_code(ErrorCode.UNSUPPORTED_VERSION, "Kafka has no such call"))
    cluster.answer(DESCRIBE_GROUPS, described())
    cluster.answer(OFFSET_FETCH, committed(("t", 1, 4)))
    (partition,) = groups.lag("g").partitions
    assert (partition.topic, partition.partition, partition.committed) == ("t", 1, 4)
    assert partition.error is not None, "this cluster has no topics"
    assert "does not exist" in partition.error.message


def test_a_delete_whose_response_was_lost_succeeds(cluster: Cluster, groups: Groups) -> None:
    gone = of_deletion(ErrorCode.GROUP_ID_NOT_FOUND)
    cluster.answer(DELETE_GROUPS, error_from_code(ErrorCode.NETWORK_EXCEPTION, "lost"), gone)
    groups.delete("g")
    cluster.answer(LIST_GROUPS, listing(of_shards=[0, 1]))
    cluster.answer(DELETE_GROUPS, gone)
    with pytest.raises(OttlaError, match="does not exist"):
        groups.delete("g")


def test_the_error_for_a_group_with_members_names_them(cluster: Cluster, groups: Groups) -> None:
    members = [member(f"m{n}", "i0" if n == 0 else None) for n in range(7)]
    cluster.answer(DESCRIBE_GROUPS, described(*members))
    cluster.answer(DELETE_GROUPS, of_deletion(ErrorCode.NON_EMPTY_GROUP))
    named = "members: i0 at h1, m1 at h1, m2 at h1, m3 at h1, m4 at h1 and 2 more"
    with pytest.raises(OttlaError, match=f"group g can't be deleted while it has {named}"):
        groups.delete("g")
    with pytest.raises(OttlaError, match=f"group g can't be reset while it has {named}") as raised:
        groups.reset("g", to="earliest")
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP


def test_a_member_that_joins_during_a_commit_is_named(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(OFFSET_COMMIT, of_commit(ErrorCode.UNKNOWN_MEMBER_ID))
    cluster.answer(DESCRIBE_GROUPS, described(member("m1")))
    with pytest.raises(OttlaError, match="can't be committed for while it has members: m1") as raised:
        groups.commit("g", {T0: 3})
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP
    (asked,) = cluster.requests(OffsetCommitRequest)
    offset = asked.topics[0].partitions[0].committed_offset
    assert (asked.generation_id_or_member_epoch, asked.member_id, offset) == (-1, "", 3)


@pytest.mark.parametrize(
    ("first", "code", "tries"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE, 2),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1),
    ],
)
def test_a_commit_is_repeated_if_that_may_help(
    cluster: Cluster, groups: Groups, first: ErrorCode, code: ErrorCode, tries: int
) -> None:
    cluster.answer(OFFSET_COMMIT, of_commit(ErrorCode.NONE, first), of_commit(ErrorCode.NONE, ErrorCode.NONE))
    raised = ErrorCode.NONE
    try:
        groups.commit("g", {T0: 3, TopicPartition("t", 1): 4})
    except OttlaError as error:
        raised = ErrorCode(error.code)
    assert (raised, len(cluster.requests(OffsetCommitRequest))) == (code, tries)


def test_an_offset_that_the_response_lacks_is_committed_again(cluster: Cluster, groups: Groups) -> None:
    offsets = {T0: 3, TopicPartition("t", 1): 4}
    cluster.answer(OFFSET_COMMIT, of_commit(ErrorCode.NONE), of_commit(ErrorCode.NONE, ErrorCode.NONE))
    groups.commit("g", offsets)
    assert len(cluster.requests(OffsetCommitRequest)) == 2
    cluster.answer(OFFSET_COMMIT, of_commit(ErrorCode.NONE))
    with pytest.raises(OttlaError, match="the response to OffsetCommit lacks t-1"):
        groups.commit("g", offsets, timeout=0.1)


def test_a_kick_names_both_ids_of_the_member(cluster: Cluster, groups: Groups) -> None:
    cluster.answer(DESCRIBE_GROUPS, described(member("m1", "i1")))
    unknown = of_departure(ErrorCode.UNKNOWN_MEMBER_ID)
    cluster.answer(LEAVE_GROUP, of_departure())
    assert groups.kick("g", "i1").member_id == "m1"
    (request,) = cluster.requests(LeaveGroupRequest)
    (leaver,) = request.members
    assert (leaver.member_id, leaver.group_instance_id) == ("m1", "i1")
    assert leaver.reason == "removed by an administrator"
    cluster.answer(LEAVE_GROUP, unknown)
    with pytest.raises(OttlaError) as raised:
        groups.kick("g", "m1")
    assert raised.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    cluster.answer(LEAVE_GROUP, error_from_code(ErrorCode.NETWORK_EXCEPTION, "lost"), unknown)
    assert groups.kick("g", "m1").instance_id == "i1"
    with pytest.raises(OttlaError, match="has no member 'i2'") as raised:
        groups.kick("g", "i2")
    assert raised.value.hint == "did you mean i1?"


def test_offsets_are_forgotten_by_topic_or_partition(cluster: Cluster, groups: Groups) -> None:
    def answered(code: ErrorCode) -> OffsetDeleteResponse:
        partition = OffsetDeleteResponse.OffsetDeleteResponsePartition(error_code=code)
        topic = OffsetDeleteResponse.OffsetDeleteResponseTopic(name="t", partitions=[partition])
        return OffsetDeleteResponse(topics=[topic])

    cluster.answer(OFFSET_FETCH, committed(*((topic, number, number) for topic in "tu" for number in range(2))))
    cluster.answer(OFFSET_DELETE, answered(ErrorCode.NONE))
    deleted = (T0, TopicPartition("t", 1), TopicPartition("u", 1))
    assert groups.delete_offsets("g", "t", partitions=[("u", 1)]) == deleted
    (request,) = cluster.requests(OffsetDeleteRequest)
    assert tuple((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions) == deleted
    cluster.answer(OFFSET_DELETE, answered(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
    with pytest.raises(OttlaError) as raised:
        groups.delete_offsets("g", "t")
    assert raised.value.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    with pytest.raises(ottla.ConfigError, match="no topic or partition is given"):
        groups.delete_offsets("g")


@pytest.mark.parametrize(
    "where",
    [{}, {"to": "earliest", "shift": 1}, {"to": "first"}, {"to": -1}, {"to": True}, {"shift": 1.5}, {"shift": True}],
)
def test_a_reset_to_nowhere_is_refused_before_anybody_is_asked(
    cluster: Cluster, groups: Groups, where: dict[str, Any]
) -> None:
    with pytest.raises(ottla.ConfigError):
        groups.reset("g", **where)
    assert cluster.asked == []


def test_explain_returns_the_events_of_a_group(cluster: Cluster, groups: Groups) -> None:
    ended = pb.GroupEvent(
        at_ms=1_500, kind="assigned", cause="go on", generation=3, duration_ms=250, partitions_moved=2
    )
    joined = pb.GroupEvent(at_ms=1_000, kind="joined", member=pb.Member(member_id="m1", instance_id="i1"))
    cluster.answer(Group.EXPLAIN_GROUP, private(pb.ExplainGroupResponse(events=[joined, ended])))
    first, second = groups.explain("g")
    assert (first.member_id, first.instance_id, second.instance_id) == ("m1", "i1", None)
    assert (second.duration, second.partitions_moved, second.generation) == (0.25, 2, 3)
    assert second.datetime == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)


def of_other_type(cluster: Cluster, *consumers: ConsumerGroupDescribeResponse.DescribedGroup) -> None:
    message = "Group g is not a classic group."
    cluster.answer(DESCRIBE_GROUPS, described(code=ErrorCode.GROUP_ID_NOT_FOUND, message=message))
    cluster.answer(CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeResponse(groups=consumers))


@pytest.mark.story("group-of-the-new-protocol-is-missing")
def test_a_share_group_exists_and_can_not_be_described(cluster: Cluster, groups: Groups) -> None:
    is_no_consumer_group = ConsumerGroupDescribeResponse.DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="Group g is not a consumer group."
    )
    of_other_type(cluster, is_no_consumer_group)
    assert groups.exists("g")
    with pytest.raises(OttlaError, match="the group 'g' is a share group or a streams group") as raised:
        groups.describe("g")
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


def consumer_member(
    name: str, state: str, assigned: Sequence[int], target: Sequence[int], revoking: Sequence[int] = ()
) -> ConsumerGroupDescribeResponse.Member:
    def of_topic(numbers: Sequence[int]) -> ConsumerGroupDescribeResponse.TopicPartitions:
        return ConsumerGroupDescribeResponse.TopicPartitions(topic_name="t", partitions=numbers)

    return ConsumerGroupDescribeResponse.Member(
        member_id=name,
        client_host="/h",
        member_epoch=8,
        rack_id="r",
        subscribed_topic_names=["u", "t"],
        assignment=ConsumerGroupDescribeResponse.Assignment(topic_partitions=[of_topic(assigned)]),
        target_assignment=ConsumerGroupDescribeResponse.Assignment(topic_partitions=[of_topic(target)]),
        state=state,
        revoking=[of_topic(revoking)],
    )


def reconciling(cluster: Cluster) -> None:
    """m1 still has t-1, which m2 is to have."""
    group = ConsumerGroupDescribeResponse.DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        assignor_name="uniform",
        group_epoch=9,
        assignment_epoch=8,
        members=[
            consumer_member("m1", "unrevoked-partitions", [0], [0], revoking=[1]),
            consumer_member("m2", "unreleased-partitions", [2], [1, 2]),
        ],
    )
    of_other_type(cluster, group)


def test_a_consumer_group_is_described_with_its_epochs(cluster: Cluster, groups: Groups) -> None:
    reconciling(cluster)
    group = groups.describe("g")
    assert (group.type, group.state, group.assignor) == ("consumer", "Reconciling", "uniform")
    assert (group.generation, group.assignment_epoch, group.leader) == (9, 8, "")
    first, second = group.members
    assert (first.epoch, first.state, first.rack, first.protocol) == (8, "unrevoked-partitions", "r", "consumer")
    assert (first.topics, first.topic_regex) == (("t", "u"), None)
    assert (first.partitions, first.revoking) == ((T0,), (TopicPartition("t", 1),))
    assert second.target == (TopicPartition("t", 1), TopicPartition("t", 2))


def test_members_that_hold_up_others_are_reported(cluster: Cluster, groups: Groups) -> None:
    reconciling(cluster)
    assert groups.describe("g").held_up == (HeldPartitions("m1", "m2", (TopicPartition("t", 1),)),)


def test_a_consumer_group_with_members_is_not_reset(cluster: Cluster, groups: Groups) -> None:
    reconciling(cluster)
    with pytest.raises(OttlaError, match="while it has members: m1 at /h, m2 at /h") as raised:
        groups.reset("g", to="earliest")
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP
