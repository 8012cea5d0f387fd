"""ConsumerGroupHeartbeat and ConsumerGroupDescribe in every version, and DescribeGroups of a consumer group."""

from __future__ import annotations

from typing import Any

import pytest
from authorization_cells import DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP
from group_backend import SHARDS, GroupBackend
from guarded import GROUP, TOPIC, TOPIC_ID, GuardedBroker

from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla_core.routing import shard_of
from ottla_core.security.authorizer_settings import AuthorizerSettings
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

VERSIONS = (0, 1)
EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)
GONE = b"g" * 16


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


# ---- heartbeat -----------------------------------------------------------------------------------------------------


def join(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    given: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m-1",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**given | fields)


def beat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    given: dict[str, Any] = {"group_id": "g", "member_id": "m-1", "member_epoch": 7}
    return ConsumerGroupHeartbeatRequest(**given | fields)


async def beaten(backend: GroupBackend, request: ConsumerGroupHeartbeatRequest, version: int) -> Any:
    return await backend.answer_by_ours(request, ConsumerGroupHeartbeatResponse, version)


@EACH_VERSION
async def test_a_join_is_passed_on_with_all_that_the_member_says(version: int) -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse())
    regex = {"subscribed_topic_regex": "t.*"} if version else {}
    await beaten(backend, join(instance_id="i-1", rack_id="r", server_assignor="range", **regex), version)
    assert backend.asked == [
        pb.ConsumerHeartbeatRequest(
            group="g",
            member=pb.Member(member_id="m-1", instance_id="i-1"),
            member_epoch=0,
            rack="r",
            rebalance_timeout_ms=60_000,
            topics=pb.SubscribedTopics(names=["t"]),
            topic_regex="t.*" if version else None,
            assignor="range",
            owned=pb.AssignedPartitions(),
            client_id="me",
            client_host="/10.0.0.2",
            gives_no_id=version == 0,
        )
    ]


@EACH_VERSION
async def test_what_has_not_changed_is_absent(version: int) -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse())
    await beaten(backend, beat(), version)
    [asked] = backend.asked
    present = {field.name for field, _ in asked.ListFields()}
    assert present == {
        *("group", "member", "member_epoch", "rebalance_timeout_ms", "client_id", "client_host"),
        *(() if version else ("gives_no_id",)),
    }
    assert asked.rebalance_timeout_ms == -1


async def test_a_member_says_which_partitions_it_owns() -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse())
    owned = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 2])]
    await beaten(backend, beat(topic_partitions=owned), 1)
    wanted = pb.AssignedPartitions(topics=[pb.AssignedTopic(topic_id=TOPIC_ID, partitions=[0, 2])])
    assert backend.asked[0].owned == wanted


@EACH_VERSION
async def test_a_member_hears_its_epoch_and_its_assignment(version: int) -> None:
    assigned = pb.AssignedPartitions(topics=[pb.AssignedTopic(topic_id=TOPIC_ID, partitions=[0, 2])])
    heard = pb.ConsumerHeartbeatResponse(
        member_id="m-1", member_epoch=8, heartbeat_interval_ms=5_000, assignment=assigned
    )
    told = await beaten(GroupBackend(heard), beat(), version)
    assert (told.error_code, told.member_id, told.member_epoch, told.heartbeat_interval_ms) == (0, "m-1", 8, 5_000)
    assert [(t.topic_id, list(t.partitions)) for t in told.assignment.topic_partitions] == [(TOPIC_ID, [0, 2])]


@EACH_VERSION
@pytest.mark.parametrize(
    ("assignment", "told"), [(None, None), (pb.AssignedPartitions(), [])], ids=["unchanged", "empty"]
)
async def test_no_assignment_is_not_an_unchanged_one(
    version: int, assignment: pb.AssignedPartitions | None, told: list[Any] | None
) -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse(assignment=assignment))
    heard = (await beaten(backend, beat(), version)).assignment
    assert told == (None if heard is None else list(heard.topic_partitions))


@EACH_VERSION
async def test_a_refusal_of_the_coordinator_is_passed_on_with_its_message(version: int) -> None:
    refused = pb.ConsumerHeartbeatResponse(error=Error(code=ErrorCode.FENCED_MEMBER_EPOCH, message="another epoch"))
    told = await beaten(GroupBackend(refused), beat(), version)
    assert (told.error_code, told.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, "another epoch")
    assert (told.member_id, told.member_epoch, told.assignment) == (None, 0, None)


async def test_a_heartbeat_that_may_have_been_carried_out_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 10.0)
    for code, times in ((ErrorCode.COORDINATOR_NOT_AVAILABLE, 1), (ErrorCode.NOT_COORDINATOR, 2)):
        backend = GroupBackend(pb.ConsumerHeartbeatResponse(error=Error(code=code)), pb.ConsumerHeartbeatResponse())
        told = await beaten(backend, beat(), 1)
        assert (told.error_code, len(backend.asked)) == (code if times == 1 else 0, times)


@EACH_VERSION
@pytest.mark.parametrize(
    "request_",
    [
        join(group_id=""),
        join(group_id=" \t"),
        join(instance_id=""),
        join(rack_id=" "),
        join(rebalance_timeout_ms=-1),
        join(topic_partitions=None),
        join(topic_partitions=[ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]),
        join(subscribed_topic_names=None),
        beat(member_id=""),
        beat(member_id="", member_epoch=-1),
        beat(member_epoch=-2),
        beat(member_epoch=-3),
        beat(member_epoch=-(2**31)),
    ],
)
async def test_what_no_member_may_say_is_refused_before_a_coordinator_sees_it(
    version: int, request_: ConsumerGroupHeartbeatRequest
) -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse())
    told = await beaten(backend, request_, version)
    assert told.error_code == ErrorCode.INVALID_REQUEST
    assert "; " in told.error_message, "it says what to do"
    assert backend.asked == []


@EACH_VERSION
@pytest.mark.parametrize(
    "request_",
    [
        join(subscribed_topic_names=[]),
        beat(member_epoch=-1),
        beat(member_epoch=-2, instance_id="i-1"),
        beat(rebalance_timeout_ms=0),
    ],
    ids=["without topics", "leaves", "leaves for now", "without time"],
)
async def test_what_a_member_may_say_is_passed_on(version: int, request_: ConsumerGroupHeartbeatRequest) -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse())
    assert (await beaten(backend, request_, version)).error_code == 0
    assert len(backend.asked) == 1


@pytest.mark.parametrize("fields", [{}, {"member_epoch": -2, "instance_id": "i-1"}], ids=["joins", "leaves for now"])
async def test_an_id_is_optional_in_version_0_alone(fields: dict[str, Any]) -> None:
    for version, code in ((0, 0), (1, ErrorCode.INVALID_REQUEST)):
        backend = GroupBackend(pb.ConsumerHeartbeatResponse(member_id="m-new"))
        told = await beaten(backend, join(member_id="", **fields), version)
        assert told.error_code == code
        assert told.member_id == (None if code else "m-new")


@pytest.mark.parametrize("field", ["subscribed_topic_names", "topic_partitions"])
async def test_the_topics_of_one_request_have_a_limit(field: str) -> None:
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=TOPIC_ID, partitions=[0])
    one: Any = "t" if field == "subscribed_topic_names" else owned
    for count, code in ((10_000, 0), (10_001, ErrorCode.INVALID_REQUEST)):
        backend = GroupBackend(pb.ConsumerHeartbeatResponse())
        assert (await beaten(backend, beat(**{field: [one] * count}), 1)).error_code == code
        assert len(backend.asked) == (0 if code else 1)


async def test_a_regular_expression_alone_is_a_subscription() -> None:
    backend = GroupBackend(pb.ConsumerHeartbeatResponse())
    told = await beaten(backend, join(subscribed_topic_names=None, subscribed_topic_regex=""), 1)
    assert told.error_code == 0
    assert backend.asked[0].HasField("topic_regex")
    assert not backend.asked[0].HasField("topics")


# ---- who reads -----------------------------------------------------------------------------------------------------


def heard_by(broker: GuardedBroker) -> list[pb.ConsumerHeartbeatRequest]:
    """The heartbeats that reach the coordinator."""
    heard: list[pb.ConsumerHeartbeatRequest] = []

    def answer(request: pb.ConsumerHeartbeatRequest) -> pb.ConsumerHeartbeatResponse:
        heard.append(request)
        return pb.ConsumerHeartbeatResponse(member_id="m-1")

    broker.answers = {"ConsumerHeartbeat": answer}
    return heard


def with_regex() -> ConsumerGroupHeartbeatRequest:
    return join(group_id=GROUP, subscribed_topic_names=None, subscribed_topic_regex="t.*")


@pytest.mark.parametrize("everyone", [False, True])
async def test_the_rights_of_the_client_bound_its_regular_expression(everyone: bool) -> None:
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=everyone)
    broker = GuardedBroker(READ_GROUP.acl(), settings=settings)
    heard = heard_by(broker)
    assert (await broker.ask(with_regex(), 1)).error_code == 0
    assert heard[0].reader == pb.ReaderOfTopics(principal="User:ANONYMOUS", host="10.0.0.2", sees_unlisted=everyone)


async def test_a_super_user_sees_every_topic() -> None:
    broker = GuardedBroker(settings=AuthorizerSettings(super_users=frozenset({"User:ANONYMOUS"})))
    heard = heard_by(broker)
    assert (await broker.ask(with_regex(), 1)).error_code == 0
    assert not heard[0].HasField("reader")


async def test_one_hidden_topic_refuses_the_subscription() -> None:
    broker = GuardedBroker(READ_GROUP.acl(), DESCRIBE_TOPIC.acl())
    told = await broker.ask(join(group_id=GROUP, subscribed_topic_names=[TOPIC, "secret"]), 1)
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.reached == []


# ---- describe ------------------------------------------------------------------------------------------------------


def partitions(topic_id: bytes = TOPIC_ID, *numbers: int) -> pb.AssignedPartitions:
    return pb.AssignedPartitions(topics=[pb.AssignedTopic(topic_id=topic_id, partitions=numbers)])


MEMBER = pb.MemberDescription(
    member=pb.Member(member_id="m-1", instance_id="i-1"),
    client_id="c",
    client_host="/10.0.0.2",
    consumer=pb.ConsumerMember(
        epoch=8,
        rack="r",
        topics=["t", "u"],
        topic_regex="x.*",
        assigned=partitions(TOPIC_ID, 0, 2),
        target=partitions(TOPIC_ID, 1),
        state="unrevoked-partitions",
    ),
)
CLASSIC_MEMBER = pb.MemberDescription(
    member=pb.Member(member_id="m-2"), consumer=pb.ConsumerMember(is_classic=True, assigned=partitions(GONE, 0))
)
CONSUMER_GROUP = pb.GroupDescription(
    group=GROUP,
    type="consumer",
    state="Reconciling",
    protocol_type="consumer",
    generation=9,
    assignment_epoch=8,
    assignor="uniform",
    members=[MEMBER, CLASSIC_MEMBER],
)
CLASSIC_GROUP = pb.GroupDescription(group=GROUP, type="classic", state="Stable", protocol_type="consumer", generation=3)


async def described(backend: GroupBackend, version: int) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    return (await backend.answer_by_ours(request, ConsumerGroupDescribeResponse, version)).groups[0]


def topics_of(assignment: Any) -> list[tuple[bytes, str, list[int]]]:
    return [(t.topic_id, t.topic_name, list(t.partitions)) for t in assignment.topic_partitions]


@EACH_VERSION
async def test_a_consumer_group_is_described(version: int) -> None:
    group = await described(GroupBackend(pb.DescribeGroupsResponse(groups=[CONSUMER_GROUP])), version)
    assert (group.error_code, group.group_id, group.group_state) == (0, GROUP, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (9, 8, "uniform")
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("m-1", "i-1", "r", 8)
    assert (first.client_id, first.client_host) == ("c", "/10.0.0.2")
    assert (list(first.subscribed_topic_names), first.subscribed_topic_regex) == (["t", "u"], "x.*")
    assert topics_of(first.assignment) == [(TOPIC_ID, "t", [0, 2])]
    assert topics_of(first.target_assignment) == [(TOPIC_ID, "t", [1])]
    assert (second.instance_id, second.rack_id, second.subscribed_topic_regex) == (None, None, None)
    assert [m.member_type for m in group.members] == ([1, 0] if version else [-1, -1])


@EACH_VERSION
async def test_a_topic_that_is_gone_is_left_out(version: int) -> None:
    group = await described(GroupBackend(pb.DescribeGroupsResponse(groups=[CONSUMER_GROUP])), version)
    assert topics_of(group.members[1].assignment) == []


@EACH_VERSION
@pytest.mark.parametrize("type_", ["classic", ""], ids=["classic", "of an older coordinator"])
async def test_a_classic_group_is_no_consumer_group(version: int, type_: str) -> None:
    classic = pb.GroupDescription(group=GROUP, type=type_, state="Stable", generation=3)
    group = await described(GroupBackend(pb.DescribeGroupsResponse(groups=[classic])), version)
    assert (group.error_code, group.group_state, group.group_epoch) == (ErrorCode.GROUP_ID_NOT_FOUND, "", 0)
    assert "is not a consumer group; DescribeGroups describes it" in group.error_message


@EACH_VERSION
async def test_a_group_that_does_not_exist_has_the_coordinators_error(version: int) -> None:
    missing = pb.GroupDescription(group=GROUP, error=Error(code=ErrorCode.GROUP_ID_NOT_FOUND, message="none"))
    group = await described(GroupBackend(pb.DescribeGroupsResponse(groups=[missing])), version)
    assert (group.error_code, group.error_message, group.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "none", GROUP)


@pytest.mark.parametrize("version", range(7))
async def test_a_consumer_group_is_no_classic_group(version: int) -> None:
    backend = GroupBackend(pb.DescribeGroupsResponse(groups=[CONSUMER_GROUP]))
    answer = await backend.answer_by_ours(DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse, version)
    [group] = answer.groups
    assert (group.group_state, group.protocol_type, list(group.members)) == ("Dead", "", [])
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert group.error_message == "'g' is not a classic group; ConsumerGroupDescribe describes it"


async def described_by(broker: GuardedBroker, *, with_operations: bool = False) -> Any:
    broker.answers = {"DescribeGroups": pb.DescribeGroupsResponse(groups=[CONSUMER_GROUP])}
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=with_operations)
    return (await broker.ask(request, 1)).groups[0]


async def test_a_group_with_a_hidden_topic_is_hidden() -> None:
    group = await described_by(GuardedBroker(DESCRIBE_GROUP.acl()), with_operations=True)
    assert (group.error_code, group.group_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, GROUP)
    assert (list(group.members), group.group_epoch, group.authorized_operations) == ([], 0, -(2**31))
    shown = await described_by(GuardedBroker(DESCRIBE_GROUP.acl(), DESCRIBE_TOPIC.acl()))
    assert (shown.error_code, len(shown.members)) == (0, 2)


async def test_operations_are_shown_if_they_are_requested() -> None:
    acls = DESCRIBE_GROUP.acl(), DESCRIBE_TOPIC.acl()
    hidden = await described_by(GuardedBroker(*acls))
    shown = await described_by(GuardedBroker(*acls), with_operations=True)
    assert hidden.authorized_operations == -(2**31)
    assert shown.authorized_operations == 1 << DESCRIBE_GROUP.operation


# ---- a large group -------------------------------------------------------------------------------------------------


def part(*member_ids: str, group: str = GROUP, has_more: bool = False) -> pb.GroupDescription:
    members = [
        pb.MemberDescription(member=pb.Member(member_id=each), consumer=pb.ConsumerMember()) for each in member_ids
    ]
    return pb.GroupDescription(group=group, type="consumer", state="Stable", members=members, has_more=has_more)


async def test_a_group_that_comes_in_parts_is_described_whole() -> None:
    parts = [part("m-1", "m-2", has_more=True), part("m-3", has_more=True), part("m-4")]
    backend = GroupBackend(*(pb.DescribeGroupsResponse(groups=[each]) for each in parts))
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    (group,) = (await backend.answer_by_ours(request, ConsumerGroupDescribeResponse, 1)).groups
    assert [member.member_id for member in group.members] == ["m-1", "m-2", "m-3", "m-4"]
    assert [asked.after_member for asked in backend.asked] == ["", "m-2", "m-3"]


async def test_a_group_that_changes_its_protocol_between_two_parts_is_described_as_what_it_is_then() -> None:
    classic = pb.GroupDescription(group=GROUP, type="classic", members=part("m-1", "m-2", "m-3").members)
    parts = [part("m-1", "m-2", has_more=True), classic]
    backend = GroupBackend(*(pb.DescribeGroupsResponse(groups=[each]) for each in parts))
    (group,) = (await backend.answer_by_ours(DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse, 5)).groups
    assert (group.error_code, [member.member_id for member in group.members]) == (0, ["m-1", "m-2", "m-3"])


async def test_a_group_whose_next_part_fails_has_the_error_and_the_others_are_described() -> None:
    others = [name for name in map(str, range(99)) if shard_of(name, SHARDS) == shard_of(GROUP, SHARDS)][:2]
    failed = pb.GroupDescription(group=GROUP, error=Error(code=ErrorCode.GROUP_ID_NOT_FOUND, message="gone"))
    backend = GroupBackend(
        pb.DescribeGroupsResponse(groups=[part("m-1", has_more=True)]),
        pb.DescribeGroupsResponse(groups=[failed, part("m-9", group=others[0], has_more=True)]),
        pb.DescribeGroupsResponse(groups=[part("m-8", group=others[0]), part(group=others[1])]),
    )
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, *others])
    told = (await backend.answer_by_ours(request, ConsumerGroupDescribeResponse, 1)).groups
    assert [(group.group_id, group.error_code, [m.member_id for m in group.members]) for group in told] == [
        (GROUP, ErrorCode.GROUP_ID_NOT_FOUND, []),
        (others[0], 0, ["m-9", "m-8"]),
        (others[1], 0, []),
    ]
