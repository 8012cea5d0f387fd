"""A shard that is on its way from one coordinator to another: the broker asks again for a moment, and then says so."""

from __future__ import annotations

import pytest
from group_backend import GroupBackend
from kafka.protocol.consumer import LeaveGroupRequest

from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

MOVING = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_PAUSE_S", 0.001)


def leave() -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", member_id="m", members=[])


@pytest.mark.parametrize("code", MOVING)
@pytest.mark.parametrize("raised", [True, False])
async def test_it_is_waited_for(code: ErrorCode, raised: bool) -> None:
    moving = OttlaError(code, "moving") if raised else pb.LeaveResponse(error=Error(code=code))
    backend = GroupBackend(moving, moving, pb.LeaveResponse())
    assert (await backend.answer(leave(), 5)).error_code == 0
    assert len(backend.asked) == 3


@pytest.mark.parametrize("code", MOVING)
async def test_but_not_for_ever(code: ErrorCode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.02)
    backend = GroupBackend(pb.LeaveResponse(error=Error(code=code)))
    assert (await backend.answer(leave(), 5)).error_code == code
    assert len(backend.asked) > 1


async def test_nobody_owns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.02)
    backend = GroupBackend(pb.LeaveResponse())
    backend.owned = False
    assert (await backend.answer(leave(), 5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert backend.asked == []


async def test_what_is_refused_is_not_asked_again() -> None:
    backend = GroupBackend(pb.LeaveResponse(error=Error(code=ErrorCode.UNKNOWN_MEMBER_ID)))
    assert (await backend.answer(leave(), 5)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(backend.asked) == 1
