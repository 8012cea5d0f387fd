"""admin.groups: who is asked, until when, and what its answers come to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

import ottla
from ottla.admin.group_info import HeldPartitions
from ottla.client.kafka.exchange import Exchange
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_core.routing import shard_of
from ottla_proto import client_pb2
from ottla_proto import group_pb2 as pb
from ottla_proto.client_calls import Client
from ottla_proto.common_pb2 import Error, ShardNumbers, ShardsResponse, ShardStanding
from ottla_proto.contracts import Group, Method

G0, G1 = "g0:1", "g1:1"


class FakeCluster:
    """Two brokers, each the coordinator of a shard of groups; answers as they are put there, the last again and again.
    A shard's owner is "" while it has none."""

    def __init__(self) -> None:
        self.owners = [G0, G1]
        self.answers: dict[str, deque[Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []

    def answer(self, method: Method[Any, Any], *answers: Any) -> None:
        self.answers[method.name] = deque(answers)

    def connect(self, address: str) -> Any:
        return _Connection(self, address)

    def metadata(self) -> client_pb2.MetadataResponse:
        brokers = [client_pb2.BrokerNode(id=number, address=address) for number, address in enumerate((G0, G1))]
        return client_pb2.MetadataResponse(brokers=brokers)

    def coordinator_of(self, group: str) -> FindCoordinatorResponse.Coordinator:
        host, _, port = self.owners[shard_of(group, len(self.owners))].rpartition(":")
        if not port:
            return FindCoordinatorResponse.Coordinator(key=group, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse.Coordinator(key=group, host=host, port=int(port))

    def methods(self) -> list[tuple[str, str]]:
        return [(address, name) for address, name, _ in self.asked]


class _Connection:
    def __init__(self, cluster: FakeCluster, address: str) -> None:
        self.cluster = cluster
        self.address = address

    def call(self, method: Method[Any, Any], request: Any, *, timeout: float) -> Any:
        if isinstance(request, client_pb2.MetadataRequest):
            return self.cluster.metadata()
        self.cluster.asked.append((self.address, method.name, request))
        answers = self.cluster.answers[method.name]
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, dict):
            answer = answer[self.address]
        if isinstance(answer, OttlaError):
            raise answer
        if answer.HasField("error") and answer.error.code:
            raise OttlaError(answer.error.code, answer.error.message)
        return answer

    def exchange(self, asked: Exchange[Any], *, timeout: float) -> Any:
        find = asked.builder(timeout)(asked.api.versions[-1])
        assert isinstance(find, FindCoordinatorRequest)
        coordinators = [*map(self.cluster.coordinator_of, find.coordinator_keys)]
        return asked.result(FindCoordinatorResponse(coordinators=coordinators), self.address)

    def close(self) -> None: ...


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def groups(cluster: FakeCluster) -> Any:
    admin = ottla.Admin(G0, request_timeout=5.0, _transport=cluster.connect)
    return admin.groups


def refused(code: ErrorCode, words: str = "no") -> Error:
    return Error(code=code, message=words)


def described(*members: pb.MemberDescription, code: ErrorCode = ErrorCode.NONE) -> pb.DescribeGroupsResponse:
    error = refused(code) if code else None
    return pb.DescribeGroupsResponse(
        groups=[pb.GroupDescription(error=error, group="g", state="Stable", protocol_type="consumer", members=members)]
    )


def member(member_id: str, instance_id: str | None = None, metadata: bytes = b"") -> pb.MemberDescription:
    return pb.MemberDescription(
        member=pb.Member(member_id=member_id, instance_id=instance_id),
        client_host="h1",
        metadata=metadata or encode_subscription(Subscription(("u", "t"))),
        assignment=encode_assignment(MemberAssignment((TopicPartition("t", 1), TopicPartition("t", 0)))),
        session_timeout_ms=45_000,
    )


@pytest.mark.feature(65)
@pytest.mark.parametrize("name", ["billing", "audit", "g", "a-group"])
def test_the_coordinator_of_the_group_is_asked(cluster: FakeCluster, groups: Any, name: str) -> None:
    cluster.answer(Group.DESCRIBE_GROUPS, described())
    groups.describe(name)
    assert cluster.methods() == [(cluster.owners[shard_of(name, 2)], "DescribeGroups")]


@pytest.mark.parametrize(
    "first",
    [
        error_from_code(ErrorCode.NOT_COORDINATOR, "moved"),
        error_from_code(ErrorCode.NETWORK_EXCEPTION, "gone"),
        described(code=ErrorCode.NOT_COORDINATOR),
        described(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_whoever_is_the_coordinator_next_is_asked_then(cluster: FakeCluster, groups: Any, first: Any) -> None:
    cluster.answer(Group.DESCRIBE_GROUPS, first, described())
    was = cluster.owners[shard_of("g", 2)]
    groups._coordinators.of("g", timeout=1)
    cluster.owners = ["g2:1", "g2:1"]
    assert groups.describe("g").state == "Stable"
    assert cluster.methods() == [(was, "DescribeGroups"), ("g2:1", "DescribeGroups")]


def test_a_group_without_a_coordinator_is_waited_for(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.DESCRIBE_GROUPS, described())
    cluster.owners = ["", ""]
    with pytest.raises(OttlaError, match="no coordinator at the moment") as raised:
        groups.describe("g", timeout=0.2)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.asked == []


def test_a_list_is_of_all_coordinators_or_none(cluster: FakeCluster, groups: Any) -> None:
    listed = {
        G0: listing(pb.ListedGroup(group="b", state="Empty"), of_shards=[0]),
        G1: listing(pb.ListedGroup(group="a", state="Stable", members=2), of_shards=[1]),
    }
    loading = pb.ListGroupsResponse(error=refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    cluster.answer(Group.LIST_GROUPS, loading, listed)
    assert [(g.name, g.members) for g in groups.list(states=["Stable"])] == [("a", 2), ("b", 0)]
    assert [address for address, _ in cluster.methods()] == [G0, G0, G1]
    assert list(cluster.asked[-1][2].states) == ["Stable"]


@pytest.mark.story("listings-that-are-short")
def test_a_list_without_a_shard_that_changes_hands_is_no_list(cluster: FakeCluster, groups: Any) -> None:
    """The former owner has given the shard up, and the new one does not know yet that it has it."""
    first, second = (listing(pb.ListedGroup(group=name), of_shards=[n]) for n, name in enumerate("ab"))
    short = {G0: first, G1: listing(of_shards=[])}
    cluster.answer(Group.LIST_GROUPS, short, short, {G0: first, G1: second})
    assert [found.name for found in groups.list()] == ["a", "b"]
    cluster.answer(Group.LIST_GROUPS, short)
    with pytest.raises(OttlaError, match="no group-coordinator can list 1 shard") as raised:
        groups.list(timeout=0.1)
    assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def listing(*groups: pb.ListedGroup, of_shards: list[int]) -> pb.ListGroupsResponse:
    return pb.ListGroupsResponse(groups=groups, shards=ShardNumbers(numbers=of_shards, total=2))


def test_every_shard_is_told_of_by_one_broker(cluster: FakeCluster, groups: Any) -> None:
    served = ShardStanding(shard=0, coordinator=4, phase="serving", for_ms=1500, next_offset=7)
    stuck = ShardStanding(shard=2, coordinator=5, phase="loading", for_ms=61_000, trouble="a CRC", unreadable=3)
    unowned = ShardStanding(shard=1, coordinator=-1, phase="unowned")
    cluster.answer(Group.SHARDS, ShardsResponse(shards=[stuck, unowned, served]))
    told = groups.shards()
    assert [(s.shard, s.coordinator, s.phase, s.seconds, s.trouble, s.unreadable) for s in told] == [
        (0, 4, "serving", 1.5, "", 0),
        (1, None, "unowned", 0.0, "", 0),
        (2, 5, "loading", 61.0, "a CRC", 3),
    ]
    assert [s.is_good for s in told] == [True, False, False]


def test_an_unknown_group_is_told_with_the_nearest_names(cluster: FakeCluster, groups: Any) -> None:
    """Other names: it may have come into being since, and is no suggestion for itself."""
    cluster.answer(
        Group.LIST_GROUPS, listing(*(pb.ListedGroup(group=g) for g in ("billing", "biling")), of_shards=[0, 1])
    )
    cluster.answer(Group.LAG, pb.LagResponse(error=refused(ErrorCode.GROUP_ID_NOT_FOUND)))
    with pytest.raises(OttlaError, match="the group 'biling' does not exist") as raised:
        groups.lag("biling")
    assert [name for _, name in cluster.methods()].count("Lag") == 1, "it is no use to ask again"
    assert (raised.value.code, raised.value.hint) == (ErrorCode.GROUP_ID_NOT_FOUND, "did you mean billing?")
    cluster.answer(Group.DESCRIBE_GROUPS, described(code=ErrorCode.GROUP_ID_NOT_FOUND))
    assert not groups.exists("biling")


def test_a_group_that_is_missing_has_committed_nothing_where_that_is_ok(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.FETCH_OFFSETS, pb.FetchOffsetsResponse())
    cluster.answer(Group.DESCRIBE_GROUPS, described(code=ErrorCode.GROUP_ID_NOT_FOUND))
    cluster.answer(Group.LIST_GROUPS, listing(of_shards=[0, 1]))
    assert groups.committed("g", if_missing="ok") == {}
    with pytest.raises(OttlaError) as raised:
        groups.committed("g")
    assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(ottla.ConfigError, match="if_missing"):
        groups.committed("g", if_missing="no")


def test_members_are_told_in_words_where_they_are_consumers(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.DESCRIBE_GROUPS, described(member("m1", "i1"), member("m2", metadata=b"\x00")))
    first, second = groups.members("g")
    assert (first.name, first.topics, first.session_timeout) == ("i1", ("t", "u"), 45.0)
    assert first.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert (second.name, second.topics, second.partitions) == ("m2", (), ())


def test_lag_is_in_records_and_seconds(cluster: FakeCluster, groups: Any) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    common: dict[str, Any] = {"log_start_offset": 2, "log_end_offset": 9}
    cluster.answer(
        Group.LAG,
        pb.LagResponse(
            partitions=[
                pb.PartitionLag(
                    topic="t", partition=0, committed=5, records=4, oldest_unread_ms=now_ms - 60_000, **common
                ),
                pb.PartitionLag(topic="t", partition=1, committed=9, records=0, **common),
                pb.PartitionLag(topic="t", partition=2, committed=-1, records=-1, **common),
                pb.PartitionLag(topic="t", partition=3, committed=1, error=refused(ErrorCode.LEADER_NOT_AVAILABLE)),
                pb.PartitionLag(
                    topic="t", partition=4, committed=5, records=1, oldest_unread_ms=now_ms + 9_000, **common
                ),
            ]
        ),
    )
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
def test_committed_offsets_are_sorted_by_partition(cluster: FakeCluster, groups: Any) -> None:
    """Kafka's brokers list them in no order."""
    shuffled = [pb.CommittedOffset(topic=topic, partition=n, offset=n) for topic, n in (("u", 0), ("t", 10), ("t", 2))]
    cluster.answer(Group.FETCH_OFFSETS, pb.FetchOffsetsResponse(offsets=shuffled))
    assert list(groups.committed("g")) == [("t", 2), ("t", 10), ("u", 0)]


@pytest.mark.story("no-lag-with-apache-kafka")
def test_lag_is_measured_where_the_coordinator_can_not_tell_it(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.LAG, error_from_code(ErrorCode.UNSUPPORTED_VERSION, "Kafka has no such call"))
    cluster.answer(Group.DESCRIBE_GROUPS, described())
    cluster.answer(
        Group.FETCH_OFFSETS, pb.FetchOffsetsResponse(offsets=[pb.CommittedOffset(topic="t", partition=1, offset=4)])
    )
    (partition,) = groups.lag("g").partitions
    assert (partition.topic, partition.partition, partition.committed) == ("t", 1, 4)
    assert partition.error is not None, "this cluster has no topics"
    assert "does not exist" in partition.error.message


def test_a_delete_whose_answer_was_lost_is_done(cluster: FakeCluster, groups: Any) -> None:
    gone = pb.DeleteGroupsResponse(groups=[pb.GroupDeleted(group="g", error=refused(ErrorCode.GROUP_ID_NOT_FOUND))])
    cluster.answer(Group.DELETE_GROUPS, error_from_code(ErrorCode.NETWORK_EXCEPTION, "lost"), gone)
    groups.delete("g")
    cluster.answer(Group.LIST_GROUPS, listing(of_shards=[0, 1]))
    cluster.answer(Group.DELETE_GROUPS, gone)
    with pytest.raises(OttlaError, match="does not exist"):
        groups.delete("g")


def test_a_group_with_members_says_who_they_are(cluster: FakeCluster, groups: Any) -> None:
    members = [member(f"m{n}", "i0" if n == 0 else None) for n in range(7)]
    cluster.answer(Group.DESCRIBE_GROUPS, described(*members))
    broker_error = pb.DeleteGroupsResponse(
        groups=[pb.GroupDeleted(group="g", error=refused(ErrorCode.NON_EMPTY_GROUP))]
    )
    cluster.answer(Group.DELETE_GROUPS, broker_error)
    named = "members: i0 at h1, m1 at h1, m2 at h1, m3 at h1, m4 at h1 and 2 more"
    with pytest.raises(OttlaError, match=f"group g can't be deleted while it has {named}"):
        groups.delete("g")
    with pytest.raises(OttlaError, match=f"group g can't be reset while it has {named}") as raised:
        groups.reset("g", to="earliest")
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP


def test_who_joins_while_offsets_are_committed_for_a_group_is_named(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.COMMIT_OFFSETS, error_from_code(ErrorCode.UNKNOWN_MEMBER_ID, "group g has no member ''"))
    cluster.answer(Group.DESCRIBE_GROUPS, described(member("m1")))
    with pytest.raises(OttlaError, match="can't be committed for while it has members: m1") as raised:
        groups.commit("g", {TopicPartition("t", 0): 3})
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP
    (asked,) = (request for _, name, request in cluster.asked if name == "CommitOffsets")
    assert (asked.generation, asked.member.member_id, asked.offsets[0].offset) == (-1, "", 3)


def test_a_member_is_kicked_as_the_one_that_was_found(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.DESCRIBE_GROUPS, described(member("m1", "i1")))
    left = pb.LeaveResponse(members=[pb.Left()])
    unknown = pb.LeaveResponse(members=[pb.Left(error=refused(ErrorCode.UNKNOWN_MEMBER_ID, "gone"))])
    cluster.answer(Group.LEAVE, left)
    assert groups.kick("g", "i1").member_id == "m1"
    (leaver,) = cluster.asked[-1][2].members
    assert (leaver.member.member_id, leaver.member.instance_id) == ("m1", "i1")
    assert leaver.reason == "removed by an administrator"
    cluster.answer(Group.LEAVE, unknown)
    with pytest.raises(OttlaError, match="gone"):
        groups.kick("g", "m1")
    cluster.answer(Group.LEAVE, error_from_code(ErrorCode.NETWORK_EXCEPTION, "lost"), unknown)
    assert groups.kick("g", "m1").instance_id == "i1"
    with pytest.raises(OttlaError, match="has no member 'i2'") as raised:
        groups.kick("g", "i2")
    assert raised.value.hint == "did you mean i1?"


def test_offsets_are_forgotten_by_topic_or_partition(cluster: FakeCluster, groups: Any) -> None:
    offsets = [pb.CommittedOffset(topic=t, partition=n, offset=n) for t in "tu" for n in range(2)]
    cluster.answer(Group.FETCH_OFFSETS, pb.FetchOffsetsResponse(offsets=offsets))
    cluster.answer(Group.DELETE_OFFSETS, pb.DeleteOffsetsResponse())
    assert groups.delete_offsets("g", "t", partitions=[("u", 1)]) == (
        TopicPartition("t", 0),
        TopicPartition("t", 1),
        TopicPartition("u", 1),
    )
    asked = cluster.asked[-1][2]
    assert [(p.topic, p.partition) for p in asked.partitions] == [("t", 0), ("t", 1), ("u", 1)]
    read = pb.PartitionOutcome(topic="t", error=refused(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "members read t"))
    cluster.answer(Group.DELETE_OFFSETS, pb.DeleteOffsetsResponse(partitions=[read]))
    with pytest.raises(OttlaError, match="members read t"):
        groups.delete_offsets("g", "t")
    with pytest.raises(ottla.ConfigError, match="no topic or partition is given"):
        groups.delete_offsets("g")


@pytest.mark.parametrize(
    "where",
    [{}, {"to": "earliest", "shift": 1}, {"to": "first"}, {"to": -1}, {"to": True}, {"shift": 1.5}, {"shift": True}],
)
def test_a_reset_to_nowhere_is_refused_before_anybody_is_asked(
    cluster: FakeCluster, groups: Any, where: dict[str, Any]
) -> None:
    with pytest.raises(ottla.ConfigError):
        groups.reset("g", **where)
    assert cluster.asked == []


def test_events_are_told_as_they_are_kept(cluster: FakeCluster, groups: Any) -> None:
    ended = pb.GroupEvent(
        at_ms=1_500, kind="assigned", cause="go on", generation=3, duration_ms=250, partitions_moved=2
    )
    joined = pb.GroupEvent(at_ms=1_000, kind="joined", member=pb.Member(member_id="m1", instance_id="i1"))
    cluster.answer(Group.EXPLAIN_GROUP, pb.ExplainGroupResponse(events=[joined, ended]))
    first, second = groups.explain("g")
    assert (first.member_id, first.instance_id, second.instance_id) == ("m1", "i1", None)
    assert (second.duration, second.partitions_moved, second.generation) == (0.25, 2, 3)
    assert second.datetime == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)


@pytest.mark.story("group-of-the-new-protocol-is-missing")
def test_a_share_group_exists_and_can_not_be_described(cluster: FakeCluster, groups: Any) -> None:
    cluster.answer(Group.DESCRIBE_GROUPS, of_other_type("Group g is not a classic group."))
    cluster.answer(Client.DESCRIBE_CONSUMER_GROUPS, of_other_type("Group g is not a consumer group."))
    assert groups.exists("g")
    with pytest.raises(OttlaError, match="the group 'g' is a share group or a streams group") as raised:
        groups.describe("g")
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


def of_other_type(message: str) -> pb.DescribeGroupsResponse:
    error = Error(code=ErrorCode.GROUP_ID_NOT_FOUND, message=message)
    return pb.DescribeGroupsResponse(groups=[pb.GroupDescription(error=error)])


def consumer_member(name: str, state: str, assigned: Sequence[int], target: Sequence[int]) -> pb.MemberDescription:
    def of_topic(numbers: Sequence[int]) -> pb.AssignedPartitions:
        return pb.AssignedPartitions(topics=[pb.AssignedTopic(name="t", partitions=numbers)])

    consumer = pb.ConsumerMember(
        epoch=8, state=state, topics=["u", "t"], rack="r", assigned=of_topic(assigned), target=of_topic(target)
    )
    return pb.MemberDescription(member=pb.Member(member_id=name), client_host="/h", consumer=consumer)


def reconciling(cluster: FakeCluster) -> None:
    """m1 still has t-1, which m2 is to have."""
    members = [
        consumer_member("m1", "unrevoked-partitions", [0], [0]),
        consumer_member("m2", "unreleased-partitions", [2], [1, 2]),
    ]
    members[0].consumer.revoking.topics.add(name="t", partitions=[1])
    group = pb.GroupDescription(
        group="g",
        type="consumer",
        state="Reconciling",
        protocol_type="consumer",
        protocol="uniform",
        generation=9,
        assignment_epoch=8,
        members=members,
    )
    cluster.answer(Group.DESCRIBE_GROUPS, of_other_type("Group g is not a classic group."))
    cluster.answer(Client.DESCRIBE_CONSUMER_GROUPS, pb.DescribeGroupsResponse(groups=[group]))


def test_a_consumer_group_is_described_with_its_epochs(cluster: FakeCluster, groups: Any) -> None:
    reconciling(cluster)
    group = groups.describe("g")
    assert (group.type, group.state, group.assignor) == ("consumer", "Reconciling", "uniform")
    assert (group.generation, group.assignment_epoch, group.leader) == (9, 8, "")
    first, second = group.members
    assert (first.epoch, first.state, first.rack, first.protocol) == (8, "unrevoked-partitions", "r", "consumer")
    assert (first.topics, first.topic_regex) == (("t", "u"), None)
    assert (first.partitions, first.revoking) == ((TopicPartition("t", 0),), (TopicPartition("t", 1),))
    assert second.target == (TopicPartition("t", 1), TopicPartition("t", 2))


def test_who_holds_up_whom_is_told(cluster: FakeCluster, groups: Any) -> None:
    reconciling(cluster)
    assert groups.describe("g").held_up == (HeldPartitions("m1", "m2", (TopicPartition("t", 1),)),)


def test_a_consumer_group_with_members_is_not_reset(cluster: FakeCluster, groups: Any) -> None:
    reconciling(cluster)
    with pytest.raises(OttlaError, match="while it has members: m1 at /h, m2 at /h") as raised:
        groups.reset("g", to="earliest")
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP
