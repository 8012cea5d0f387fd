"""FindCoordinator, ListGroups, DescribeGroups and DeleteGroups in every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from group_backend import SHARDS, GroupBackend, versions
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_core.cluster.image import Change, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId
from ottla_core.routing import shard_of
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error, ShardNumbers

FIND, DESCRIBE, LIST, DELETE = 10, 15, 16, 42
GROUP, TXN, SHARE = 0, 1, 2
NO_OPERATIONS = -(2**31)


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


def led_by(backend: GroupBackend, leaders: dict[int, int], name: str = "__consumer_offsets") -> None:
    """Brokers that lead shards' partitions."""
    topic = backend.image.topics[name]
    changes = [
        Change(("partition", PartitionId(topic.id, n)), Partition((leader,), leader, isr=(leader,)))
        for n, leader in leaders.items()
    ]
    backend.image = backend.image.with_changes(changes, backend.image.revision + 1)


# ---- find coordinator --------------------------------------------------------------------------------------------


def find(version: int, key_type: int = GROUP) -> Any:
    return FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g", "h"])


def found(answer: Any, version: int) -> list[Any]:
    return list(answer.coordinators) if version >= 4 else [answer]


@pytest.mark.parametrize("version", versions(FIND))
async def test_a_coordinator_is_the_leader_of_its_shard(version: int) -> None:
    backend = GroupBackend()
    shards = [shard_of(group, SHARDS) for group in "gh"]
    assert shards[0] != shards[1]
    led_by(backend, {shards[0]: 2, shards[1]: 1})
    told = [
        (t.error_code, t.node_id, t.host, t.port) for t in found(await backend.answer(find(version), version), version)
    ]
    assert told == [(0, 2, "host-2", 9094), (0, 1, "host-1", 9093)][: len(told)]
    assert len(told) == (2 if version >= 4 else 1)


@pytest.mark.parametrize("version", versions(FIND))
async def test_any_live_broker_speaks_for_a_leader_that_is_gone(version: int) -> None:
    backend = GroupBackend()
    led_by(backend, dict.fromkeys(range(SHARDS), 2))
    broker = backend.image.brokers[2]
    backend.image = backend.image.with_changes([Change(("broker", 2), replace(broker, fenced=True))], 10_000)
    told = found(await backend.answer(find(version), version), version)
    assert all(t.error_code == 0 and t.node_id in (0, 1) for t in told)


@pytest.mark.parametrize("version", versions(FIND))
async def test_nobody_owns_the_shard(version: int) -> None:
    backend = GroupBackend()
    backend.owned = False
    for told in found(await backend.answer(find(version), version), version):
        assert (told.error_code, told.node_id, told.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


@pytest.mark.parametrize("version", versions(FIND, since=1))
async def test_other_kinds_of_coordinators(version: int) -> None:
    told = found(await GroupBackend().answer(find(version, SHARE), version), version)
    assert {(t.error_code, t.node_id) for t in told} == {(ErrorCode.INVALID_REQUEST, -1)}
    assert all("there are no coordinators of type 2" in t.error_message for t in told)


@pytest.mark.parametrize("version", versions(FIND, since=1))
async def test_a_txn_coordinator_is_found_by_its_own_topic(version: int) -> None:
    backend = GroupBackend()
    led_by(backend, {shard_of("g", SHARDS): 1}, "__transaction_state")
    assert found(await backend.answer(find(version, TXN), version), version)[0].node_id == 1
    assert found(await backend.answer(find(version, GROUP), version), version)[0].node_id == 0


# ---- list --------------------------------------------------------------------------------------------------------


def listing(coordinator: Any, asked: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
    """Each coordinator has two shards with a group each, and lists those that it is asked for."""
    shards = {coordinator.id, coordinator.id + 2} & {*asked.shards.numbers}
    groups = [
        pb.ListedGroup(group=f"g-{n}", protocol_type="consumer", state="Stable", type="classic", shard=n)
        for n in sorted(shards)
    ]
    return pb.ListGroupsResponse(groups=groups, shards=ShardNumbers(numbers=sorted(shards)))


@pytest.mark.story("each-broker-asked-for-everything")
@pytest.mark.parametrize("version", versions(LIST))
async def test_a_broker_lists_the_groups_whose_shards_it_leads(version: int) -> None:
    """So that whoever asks all brokers, as clients do, hears of each group once."""
    backend = GroupBackend(listing)
    led_by(backend, {0: 0, 1: 0, 2: 1, 3: 2})
    told = await backend.answer(ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"]), version)
    assert told.error_code == 0
    assert [(g.group_id, g.protocol_type) for g in told.groups] == [("g-0", "consumer"), ("g-1", "consumer")]
    if version >= 4:
        assert {g.group_state for g in told.groups} == {"Stable"}
    if version >= 5:
        assert {g.group_type for g in told.groups} == {"classic"}
    wanted = pb.ListGroupsRequest(
        states=["Stable"] if version >= 4 else [],
        types=["classic"] if version >= 5 else [],
        shards=ShardNumbers(numbers=[0, 1], total=SHARDS),
    )
    assert backend.asked == [wanted, wanted], "of the shards of others nothing is asked"


async def test_a_broker_that_leads_no_shard_lists_no_group() -> None:
    backend = GroupBackend(listing)
    led_by(backend, dict.fromkeys(range(SHARDS), 1))
    assert not (await backend.answer(ListGroupsRequest(states_filter=[], types_filter=[]), 4)).groups
    assert all(asked.HasField("shards") for asked in backend.asked), "else it would be asked for all of them"


@pytest.mark.parametrize("version", versions(LIST))
async def test_a_coordinator_that_is_not_ready_is_told_with_what_the_others_have(version: int) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for response in (pb.ListGroupsResponse(error=Error(code=code)), OttlaError(code, "loading")):
        backend = GroupBackend(
            lambda coordinator, asked, r=response: listing(coordinator, asked) if coordinator.id else r
        )
        led_by(backend, dict.fromkeys(range(SHARDS), 0))
        told = await backend.answer(ListGroupsRequest(states_filter=[], types_filter=[]), version)
        assert (told.error_code, [g.group_id for g in told.groups]) == (code, ["g-1", "g-3"])


@pytest.mark.story("listings-that-are-short")
async def test_a_shard_that_no_coordinator_lists_is_waited_for_or_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its new owner does not know yet that it has it."""

    def without_shard_3(coordinator: Any, asked: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
        others = ShardNumbers(numbers=set(asked.shards.numbers) - {3})
        return listing(coordinator, pb.ListGroupsRequest(shards=others))

    request = ListGroupsRequest(states_filter=[], types_filter=[])
    backend = GroupBackend(without_shard_3)
    led_by(backend, dict.fromkeys(range(SHARDS), 0))
    assert (await backend.answer(request, 4)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 10.0)
    backend = GroupBackend(without_shard_3, without_shard_3, listing)
    led_by(backend, dict.fromkeys(range(SHARDS), 0))
    told = await backend.answer(request, 4)
    assert (told.error_code, [g.group_id for g in told.groups]) == (0, ["g-0", "g-2", "g-1", "g-3"])


# ---- describe ----------------------------------------------------------------------------------------------------


def describe(version: int, *, operations: bool = True) -> Any:
    asks = operations and version >= 3
    return DescribeGroupsRequest(groups=["g"], include_authorized_operations=asks)


STABLE = pb.GroupDescription(
    group="g",
    state="Stable",
    protocol_type="consumer",
    protocol="range",
    generation=3,
    members=[
        pb.MemberDescription(
            member=pb.Member(member_id="m-1", instance_id="i-1"),
            client_id="c",
            client_host="/10.0.0.9",
            metadata=b"s",
            assignment=b"a",
        ),
        pb.MemberDescription(member=pb.Member(member_id="m-2")),
    ],
)


@pytest.mark.parametrize("version", versions(DESCRIBE))
async def test_a_group_is_described(version: int) -> None:
    (told,) = (await GroupBackend(pb.DescribeGroupsResponse(groups=[STABLE])).answer(describe(version), version)).groups
    assert (told.error_code, told.group_id, told.group_state) == (0, "g", "Stable")
    assert (told.protocol_type, told.protocol_data) == ("consumer", "range")
    first, second = told.members
    assert (first.member_id, first.client_id, first.client_host) == ("m-1", "c", "/10.0.0.9")
    assert (first.member_metadata, first.member_assignment) == (b"s", b"a")
    if version >= 3:
        assert told.authorized_operations == sum(1 << operation for operation in (3, 6, 8, 10, 11))
    if version >= 4:
        assert (first.group_instance_id, second.group_instance_id) == ("i-1", None)


@pytest.mark.story("each-described-group-is-a-call")
async def test_the_groups_of_a_shard_are_described_in_as_many_calls_as_responses_have_room_for() -> None:
    names = [f"g{n}" for n in range(40)]

    def first_three(coordinator: Any, asked: pb.DescribeGroupsRequest) -> pb.DescribeGroupsResponse:
        return pb.DescribeGroupsResponse(groups=[pb.GroupDescription(group=g, state="Empty") for g in asked.groups[:3]])

    backend = GroupBackend(first_three)
    described = (await backend.answer(DescribeGroupsRequest(groups=names), 5)).groups
    assert sorted(group.group_id for group in described) == sorted(names)
    assert {group.group_state for group in described} == {"Empty"}
    assert all(len({shard_of(group, SHARDS) for group in asked.groups}) == 1 for asked in backend.asked)
    in_shards = [sum(shard_of(group, SHARDS) == shard for group in names) for shard in range(SHARDS)]
    assert len(backend.asked) == sum(-(-count // 3) for count in in_shards)


@pytest.mark.parametrize(
    "response",
    [
        pb.DescribeGroupsResponse(),
        pb.DescribeGroupsResponse(error=Error(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "gone"),
    ],
)
async def test_each_group_of_an_undescribed_shard_gets_an_error(response: Any) -> None:
    names = [f"g{n}" for n in range(500)]
    described = (await GroupBackend(response).answer(DescribeGroupsRequest(groups=names), 5)).groups
    assert {group.group_id: group.error_code for group in described} == dict.fromkeys(
        names, ErrorCode.COORDINATOR_NOT_AVAILABLE
    )


@pytest.mark.parametrize("version", versions(DESCRIBE, since=3))
async def test_operations_are_told_to_those_who_ask(version: int) -> None:
    request = describe(version, operations=False)
    (told,) = (await GroupBackend(pb.DescribeGroupsResponse(groups=[STABLE])).answer(request, version)).groups
    assert told.authorized_operations == NO_OPERATIONS


@pytest.mark.parametrize("version", versions(DESCRIBE))
async def test_a_group_that_is_not_there_is_dead(version: int) -> None:
    gone = pb.GroupDescription(group="g", error=Error(code=ErrorCode.GROUP_ID_NOT_FOUND, message="no group g"))
    (told,) = (await GroupBackend(pb.DescribeGroupsResponse(groups=[gone])).answer(describe(version), version)).groups
    assert (told.group_id, told.group_state, told.members) == ("g", "Dead", ())
    assert told.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert told.error_message == "no group g"


@pytest.mark.parametrize("version", versions(DESCRIBE))
async def test_a_group_whose_coordinator_does_not_answer(version: int) -> None:
    for response in (
        OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody"),
        pb.DescribeGroupsResponse(error=Error(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    ):
        (told,) = (await GroupBackend(response).answer(describe(version), version)).groups
        assert (told.group_id, told.error_code) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert told.group_state == ""


# ---- delete ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(DELETE))
async def test_groups_are_deleted_each_with_its_outcome(version: int) -> None:
    codes = {"g": ErrorCode.NONE, "h": ErrorCode.NON_EMPTY_GROUP, "i": ErrorCode.GROUP_ID_NOT_FOUND}

    def delete(_: Any, asked: pb.DeleteGroupsRequest) -> pb.DeleteGroupsResponse:
        outcomes = [pb.GroupDeleted(group=group, error=Error(code=codes[group])) for group in asked.groups]
        return pb.DeleteGroupsResponse(groups=outcomes)

    told = await GroupBackend(delete).answer(DeleteGroupsRequest(groups_names=list(codes)), version)
    assert {r.group_id: r.error_code for r in told.results} == codes


@pytest.mark.parametrize("version", versions(DELETE))
async def test_a_group_that_can_not_be_deleted_now(version: int) -> None:
    for response in (
        OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody"),
        pb.DeleteGroupsResponse(error=Error(code=ErrorCode.NOT_ENOUGH_REPLICAS)),
    ):
        told = await GroupBackend(response).answer(DeleteGroupsRequest(groups_names=["g"]), version)
        assert [(r.group_id, r.error_code) for r in told.results] == [("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
