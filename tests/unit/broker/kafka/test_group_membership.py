"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup in every version: what a coordinator is asked, what a client is told."""

from __future__ import annotations

from typing import Any

import pytest
from group_backend import GroupBackend, versions
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

JOIN, HEARTBEAT, LEAVE, SYNC = 11, 12, 13, 14


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a shard that is on its way: test_group_calls.py does."""
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


# ---- join ------------------------------------------------------------------------------------------------------


def join(member_id: str = "m-1", instance_id: str | None = "i-1") -> Any:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[protocol(name="range", metadata=b"r"), protocol(name="sticky", metadata=b"")],
        reason="why",
    )


JOINED = pb.JoinResponse(
    generation=7,
    protocol_type="consumer",
    protocol="range",
    leader="m-1",
    member_id="m-1",
    members=[
        pb.Subscriber(member=pb.Member(member_id="m-1", instance_id="i-1"), metadata=b"r"),
        pb.Subscriber(member=pb.Member(member_id="m-2"), metadata=b""),
    ],
    skip_assignment=True,
)


@pytest.mark.parametrize("version", versions(JOIN))
async def test_a_join_is_passed_on(version: int) -> None:
    backend = GroupBackend(JOINED)
    await backend.answer(join(), version)
    (asked,) = backend.asked
    assert asked == pb.JoinRequest(
        group="g",
        member=pb.Member(member_id="m-1", instance_id="i-1" if version >= 5 else None),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000 if version >= 1 else 0,  # 0: the coordinator takes the session timeout
        protocol_type="consumer",
        protocols=[pb.Protocol(name="range", metadata=b"r"), pb.Protocol(name="sticky")],
        member_id_required=version >= 4,
        reason="why" if version >= 8 else "",
        skips_assignment=version >= 9,
        client_id="me",
        client_host="/10.0.0.2",
    )
    assert backend.limits_s[0] > 300, "it waits for the other members"


@pytest.mark.parametrize("version", versions(JOIN))
async def test_a_leader_is_told_of_all_members(version: int) -> None:
    told = await GroupBackend(JOINED).answer(join(), version)
    assert (told.error_code, told.generation_id, told.protocol_name) == (0, 7, "range")
    assert (told.leader, told.member_id) == ("m-1", "m-1")
    assert [(m.member_id, m.metadata) for m in told.members] == [("m-1", b"r"), ("m-2", b"")]
    if version >= 5:
        assert [m.group_instance_id for m in told.members] == ["i-1", None]
    if version >= 7:
        assert told.protocol_type == "consumer"
    if version >= 9:
        assert told.skip_assignment is True


@pytest.mark.rule(44)
@pytest.mark.parametrize("version", versions(JOIN, since=4))
async def test_a_new_member_is_told_its_id_with_the_refusal(version: int) -> None:
    required = pb.JoinResponse(error=Error(code=ErrorCode.MEMBER_ID_REQUIRED), member_id="m-new")
    told = await GroupBackend(required).answer(join(""), version)
    assert (told.error_code, told.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m-new")


@pytest.mark.parametrize("version", versions(JOIN))
async def test_a_refused_join_has_a_generation_of_none(version: int) -> None:
    told = await GroupBackend(pb.JoinResponse(error=Error(code=ErrorCode.UNKNOWN_MEMBER_ID))).answer(join(), version)
    assert (told.error_code, told.generation_id, told.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "m-1")
    assert (told.leader, told.members) == ("", ())
    assert told.protocol_name == ("" if version < 7 else None)


# ---- sync ------------------------------------------------------------------------------------------------------


def sync() -> Any:
    assigned = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id="g",
        generation_id=7,
        member_id="m-1",
        group_instance_id="i-1",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assigned(member_id="m-1", assignment=b"a"), assigned(member_id="m-2", assignment=b"")],
    )


@pytest.mark.parametrize("version", versions(SYNC))
async def test_a_sync_is_passed_on_and_answered(version: int) -> None:
    backend = GroupBackend(pb.SyncResponse(protocol_type="consumer", protocol="range", assignment=b"mine"))
    told = await backend.answer(sync(), version)
    assert backend.asked == [
        pb.SyncRequest(
            group="g",
            member=pb.Member(member_id="m-1", instance_id="i-1" if version >= 3 else None),
            generation=7,
            protocol_type="consumer" if version >= 5 else "",
            protocol="range" if version >= 5 else "",
            assignments=[pb.MemberAssignment(member_id="m-1", assignment=b"a"), pb.MemberAssignment(member_id="m-2")],
        )
    ]
    assert (told.error_code, told.assignment) == (0, b"mine")
    if version >= 5:
        assert (told.protocol_type, told.protocol_name) == ("consumer", "range")
    assert backend.limits_s[0] > 300, "it waits for the leader"


@pytest.mark.parametrize("version", versions(SYNC))
async def test_a_refused_sync_assigns_nothing(version: int) -> None:
    told = await GroupBackend(pb.SyncResponse(error=Error(code=ErrorCode.ILLEGAL_GENERATION))).answer(sync(), version)
    assert (told.error_code, told.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")


# ---- heartbeat -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID])
@pytest.mark.parametrize("version", versions(HEARTBEAT))
async def test_a_heartbeat(version: int, code: ErrorCode) -> None:
    backend = GroupBackend(pb.HeartbeatResponse(error=Error(code=code)))
    request = HeartbeatRequest(group_id="g", generation_id=7, member_id="m-1", group_instance_id="i-1")
    knows = version >= 3 or code != ErrorCode.FENCED_INSTANCE_ID
    assert (await backend.answer(request, version)).error_code == (code if knows else ErrorCode.UNKNOWN_MEMBER_ID)
    member = pb.Member(member_id="m-1", instance_id="i-1" if version >= 3 else None)
    assert backend.asked == [pb.HeartbeatRequest(group="g", member=member, generation=7)]
    assert backend.limits_s[0] < 30


# ---- leave -----------------------------------------------------------------------------------------------------


def leave() -> Any:
    member = LeaveGroupRequest.MemberIdentity
    several = [
        member(member_id="m-1", group_instance_id=None, reason="done"),
        member(member_id="", group_instance_id="i-2", reason=None),
    ]
    return LeaveGroupRequest(group_id="g", member_id="m-1", members=several)


@pytest.mark.parametrize("version", versions(LEAVE, until=2))
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
async def test_one_member_leaves(version: int, code: ErrorCode) -> None:
    """Its own error is that of the answer, which has no other."""
    left = pb.Left(member=pb.Member(member_id="m-1"), error=Error(code=code))
    backend = GroupBackend(pb.LeaveResponse(members=[left]))
    assert (await backend.answer(leave(), version)).error_code == code
    assert backend.asked == [pb.LeaveRequest(group="g", members=[pb.Leaver(member=pb.Member(member_id="m-1"))])]


@pytest.mark.parametrize("version", versions(LEAVE, since=3))
async def test_several_members_leave_each_with_its_outcome(version: int) -> None:
    members = [pb.Member(member_id="m-1"), pb.Member(member_id="", instance_id="i-2")]
    lefts = [pb.Left(member=members[0]), pb.Left(member=members[1], error=Error(code=ErrorCode.UNKNOWN_MEMBER_ID))]
    backend = GroupBackend(pb.LeaveResponse(members=lefts))
    told = await backend.answer(leave(), version)
    assert told.error_code == 0
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in told.members] == [
        ("m-1", None, 0),
        ("", "i-2", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    reasons = ("done" if version >= 5 else "", "")
    leavers = [pb.Leaver(member=m, reason=reason) for m, reason in zip(members, reasons, strict=True)]
    assert backend.asked == [pb.LeaveRequest(group="g", members=leavers)]


# ---- errors of all of them ---------------------------------------------------------------------------------------


def heartbeat() -> Any:
    return HeartbeatRequest("g", 7, "m-1", None)


REQUESTS = {JOIN: join, SYNC: sync, LEAVE: leave, HEARTBEAT: heartbeat}
RESPONSES = {JOIN: pb.JoinResponse, SYNC: pb.SyncResponse, LEAVE: pb.LeaveResponse, HEARTBEAT: pb.HeartbeatResponse}


@pytest.mark.parametrize("key", REQUESTS)
@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_trouble_with_the_log_is_told_as_kafka_does(key: int, code: ErrorCode, told: ErrorCode) -> None:
    """Whether the coordinator says it, or the call to it fails so."""
    for version in (versions(key)[0], versions(key)[-1]):
        for response in (RESPONSES[key](error=Error(code=code)), OttlaError(code, "trouble")):
            assert (await GroupBackend(response).answer(REQUESTS[key](), version)).error_code == told
