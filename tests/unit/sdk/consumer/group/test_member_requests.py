"""A member's requests in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from typing import Any

import pytest
from exchanged import meaning, sent

from ottla.client.group_departure import departure
from ottla.client.kafka.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from ottla.client.kafka.exchange import Exchange
from ottla.consumer.group.heartbeats import heartbeat
from ottla.consumer.group.joining import join, sync
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity, MemberSettings
from ottla_core.kafka.messages import HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse

NEW = MemberIdentity()
DYNAMIC = MemberIdentity("m1", 4)
STATIC = MemberIdentity("m2", 4, "i2")


def joining(who: MemberIdentity = NEW, reason: str = "it begins") -> Exchange[JoinGroupResponse]:
    settings = MemberSettings(session_timeout_s=6.0, max_poll_interval_s=60.0)
    return join("g", who, settings, {"sticky": b"s", "range": b"r"}, reason)


@pytest.mark.parametrize("version", JOIN_GROUP.versions)
@pytest.mark.parametrize("who", [NEW, DYNAMIC, STATIC])
def test_a_member_joins_with_its_subscriptions(version: int, who: MemberIdentity) -> None:
    request = sent(joining(who), version)
    assert (request.group_id, request.member_id, request.protocol_type) == ("g", who.member_id, "consumer")
    assert request.group_instance_id == who.instance_id
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (6_000, 60_000)
    assert [(p.name, bytes(p.metadata)) for p in request.protocols] == [("sticky", b"s"), ("range", b"r")]
    assert request.reason == ("it begins" if version >= 8 else None)


def test_a_long_reason_to_join_is_cut() -> None:
    assert sent(joining(reason="é" * 256), 8).reason == "é" * 255


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
    joined = meaning(joining(), response, version)
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (4, "range", "m1")
    assert (joined.member_id, joined.skip_assignment) == ("m1", version >= 9)
    assert [(each.member_id, each.group_instance_id, bytes(each.metadata)) for each in joined.members] == [
        ("m1", None, b"1"),
        ("m2", "i2", b"2"),
    ]


@pytest.mark.parametrize("version", JOIN_GROUP.versions)
def test_a_new_member_gets_its_id(version: int) -> None:
    no_protocol = None if version >= 7 else ""
    response = JoinGroupResponse(error_code=79, protocol_name=no_protocol, member_id="m1")
    joined = meaning(joining(), response, version)
    assert (joined.error_code, joined.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m1")


def test_a_member_that_has_its_id_gets_no_other() -> None:
    response = JoinGroupResponse(error_code=79, member_id="m2")
    with pytest.raises(OttlaError) as caught:
        meaning(joining(STATIC), response, 9)
    assert caught.value.code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("version", SYNC_GROUP.versions)
def test_a_leader_sends_assignments_and_gets_its_own(version: int) -> None:
    asked = sync("g", STATIC, "range", {"m2": b"2", "m1": b"1"})
    request = sent(asked, version)
    member = request.member_id, request.group_instance_id, request.generation_id
    assert (request.group_id, *member) == ("g", "m2", "i2", 4)
    named = ("consumer", "range") if version >= 5 else (None, None)
    assert (request.protocol_type, request.protocol_name) == named
    assert [(each.member_id, bytes(each.assignment)) for each in request.assignments] == [("m2", b"2"), ("m1", b"1")]
    response = SyncGroupResponse(assignment=b"2", protocol_type=named[0], protocol_name=named[1])
    assert meaning(asked, response, version) == b"2"


@pytest.mark.parametrize("version", HEARTBEAT.versions)
def test_a_heartbeat_names_the_member(version: int) -> None:
    asked = heartbeat("g", STATIC)
    request = sent(asked, version)
    member = request.member_id, request.group_instance_id, request.generation_id
    assert (request.group_id, *member) == ("g", "m2", "i2", 4)
    meaning(asked, HeartbeatResponse(), version)


@pytest.mark.parametrize("version", LEAVE_GROUP.versions)
@pytest.mark.parametrize("who", [DYNAMIC, MemberIdentity(instance_id="i2")])
@pytest.mark.parametrize("reason", ["done", ""])
def test_a_member_leaves(version: int, who: MemberIdentity, reason: str) -> None:
    asked = departure("g", who, reason)
    request = sent(asked, version)
    (leaver,) = request.members
    assert (request.group_id, leaver.member_id, leaver.group_instance_id) == ("g", who.member_id, who.instance_id)
    assert leaver.reason == (reason if version >= 5 else None)
    meaning(asked, left(0), version)
    with pytest.raises(OttlaError) as raised:
        meaning(asked, left(25), version)
    assert raised.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def left(code: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(members=[LeaveGroupResponse.MemberResponse(member_id="m1", error_code=code)])


@pytest.mark.parametrize(
    "asked",
    [joining(), sync("g", DYNAMIC, "", {}), heartbeat("g", DYNAMIC), departure("g", DYNAMIC, "")],
    ids=lambda asked: asked.api.name,
)
def test_an_error_of_the_whole_request_is_raised(asked: Exchange[Any]) -> None:
    for version in asked.api.versions:
        with pytest.raises(OttlaError) as raised:
            meaning(asked, asked.api.response(error_code=27), version)
        assert raised.value.code == ErrorCode.REBALANCE_IN_PROGRESS
