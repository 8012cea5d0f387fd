"""What a Kafka client is told of trouble at a group's coordinator: the codes that Kafka's own brokers would use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from images import image_of, with_topic

from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.authorization.access import EVERYTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_broker.kafka.handlers import heartbeat, list_groups, offset_commit, offset_fetch, sync_group
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import (
    HeartbeatRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked for again."""
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


class Coordinator:
    """A backend whose coordinator answers everything so; `asked` is what it got."""

    def __init__(self, response: Any) -> None:
        self.image = with_topic(image_of(1), "t", 1)
        self.node_id = 0
        self.coordinators = self
        self.asked: list[Any] = []
        self._response = response

    def owner(self, kind: str, key: str) -> Any:
        return SimpleNamespace(address="there")

    def all_of(self, kind: str) -> list[Any]:
        return [self.owner(kind, "")]

    async def ask(self, coordinator: Any, method: object, asked: Any, timeout: float) -> Any:
        self.asked.append(asked)
        return self._response


async def ask(answer: Any, coordinator: Coordinator, asked: Any, version: int) -> Any:
    """Return the response with the codes that it is encoded with."""
    request = cast(
        KafkaContext,
        SimpleNamespace(version=version, client_id="c", caller=Caller("127.0.0.1", "127.0.0.1"), access=EVERYTHING),
    )
    response = await answer(cast(Backend, coordinator), asked, request)
    codec.encode(response, version, APIS[asked.API_KEY].errors)
    return response


def error(code: ErrorCode) -> Error:
    return Error(code=code, message="said so")


async def test_a_heartbeat_is_well_while_the_group_is_loaded() -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    for code, told in {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID: ErrorCode.UNKNOWN_MEMBER_ID,
    }.items():
        response = await ask(heartbeat.handle, Coordinator(pb.HeartbeatResponse(error=error(code))), beat, 3)
        assert response.error_code == told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_a_sync_hears_what_clients_expect_of_one(code: ErrorCode, told: ErrorCode) -> None:
    response = await ask(sync_group.handle, Coordinator(pb.SyncResponse(error=error(code))), sync(3), 3)
    assert response.error_code == told


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
async def test_a_sync_names_the_protocol_from_version_5_on(missing: str) -> None:
    coordinator = Coordinator(pb.SyncResponse())
    response = await ask(sync_group.handle, coordinator, sync(5, **{missing: None}), 5)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.asked == []
    response = await ask(sync_group.handle, coordinator, sync(5), 5)
    assert response.error_code == 0


def sync(version: int, **more: Any) -> Any:
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        group_instance_id=None,
        assignments=[],
        **{**named, **more},
    )


async def test_a_commit_that_is_too_large_is_told_in_its_own_code() -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    each = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata=""
    )
    asked = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=1,
        member_id="m",
        group_instance_id=None,
        topics=[topic(name="t", partitions=[each])],
    )
    response = pb.CommitOffsetsResponse(error=error(ErrorCode.RECORD_LIST_TOO_LARGE))
    told = await ask(offset_commit.handle, Coordinator(response), asked, 7)
    assert told.topics[0].partitions[0].error_code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE


@pytest.mark.parametrize(
    ("named", "passed"),
    [
        ({"member_id": "m", "member_epoch": 3}, ("m", 3)),
        ({"member_id": None, "member_epoch": 3}, ("", 3)),
        ({"member_id": "", "member_epoch": -1}, ("", -1)),
        ({"member_id": None, "member_epoch": -1}, None),
    ],
)
async def test_the_member_that_fetches_offsets_is_passed_on(
    named: dict[str, Any], passed: tuple[str, int] | None
) -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None, **named)
    coordinator = Coordinator(pb.FetchOffsetsResponse())
    await ask(offset_fetch.handle, coordinator, OffsetFetchRequest(groups=[group], require_stable=False), 9)
    asked = coordinator.asked[0]
    assert passed == ((asked.member.member_id, asked.generation) if asked.HasField("member") else None)


async def test_a_list_is_asked_for_again_while_a_shard_changes_hands() -> None:
    response = pb.ListGroupsResponse(error=error(ErrorCode.NOT_COORDINATOR))
    told = await ask(list_groups.handle, Coordinator(response), ListGroupsRequest(), 3)
    assert told.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
