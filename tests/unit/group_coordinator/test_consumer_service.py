"""Consumer groups through the coordinator's contract, over a shard and its log."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
from groups import id_of
from waiting import until

from ottla_core.cluster.image import ClusterImage, Shard, Topic
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.memory_log import MemoryShardLog
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.coordination.shard_log import Append, Call, Result
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.records.fence import ShardFence
from ottla_core.rpc.context import RequestContext
from ottla_core.telemetry import Metrics
from ottla_group_coordinator import target_maker
from ottla_group_coordinator.group_metrics import GroupMetrics
from ottla_group_coordinator.lag import Lag
from ottla_group_coordinator.machines.consumer import target
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings
from ottla_group_coordinator.machines.consumer.topics import ImageTopics
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.service import GroupService
from ottla_group_coordinator.target_maker import TargetMaker
from ottla_proto import group_pb2 as pb

OFFSETS = Topic("__consumer_offsets", TopicId(b"o" * 16), 1)
TOPIC = Topic("t", id_of("t"), 4)
IMAGE = replace(
    ClusterImage("c", topics={OFFSETS.name: OFFSETS, "t": TOPIC}, topic_names={TOPIC.id: "t"}),
    shards={("group", 0): Shard(7, 700, 1)},
)
CALLER = RequestContext(client_id="client")
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=0, consumer=ConsumerGroupsSettings(ConsumerSettings(assignment_interval_ms=0))
)
ALL = pb.AssignedPartitions(topics=[pb.AssignedTopic(topic_id=TOPIC.id, partitions=range(4))])


class Log(MemoryShardLog):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        self.calls.append(call)
        return await super().call(shard, owner, call, timeout_s=timeout_s)


class Coordinator:
    def __init__(self) -> None:
        self.log, self.metrics = Log(), Metrics()
        topics = ImageTopics(IMAGE)
        self.shards = OwnedShards(
            "group",
            7,
            lambda: 700,
            self.log,
            lambda n: GroupShard(SETTINGS, topics),
            _release,
            metrics=self.metrics,
            perform=self._perform,
            limits=ShardLimits(unproved_s=20.0),
        )
        self._group_metrics = GroupMetrics(self.metrics)
        self.targets = TargetMaker(self.shards)
        metadata: Any = SimpleNamespace(image=IMAGE)
        lag: Any = SimpleNamespace(lags=_lags)
        transactions: Any = SimpleNamespace()
        self.service = GroupService(
            self.shards, metadata, 7, lag, self._group_metrics, transactions, new_id=lambda: "chosen"
        )

    def _perform(self, shard: int, epoch: int, effect: Any) -> None:
        self._group_metrics.on_effect(shard, epoch, effect)
        self.targets.on_effect(shard, epoch, effect)

    async def beat(self, member_id: str, epoch: int, **more: Any) -> pb.ConsumerHeartbeatResponse:
        fields: dict[str, Any] = {"rebalance_timeout_ms": -1, **more}
        request = pb.ConsumerHeartbeatRequest(
            group="g", member=pb.Member(member_id=member_id), member_epoch=epoch, **fields
        )
        return await self.service.consumer_heartbeat(request, CALLER)

    async def join(self, member_id: str, **more: Any) -> pb.ConsumerHeartbeatResponse:
        joining = {
            "rebalance_timeout_ms": 60_000,
            "topics": pb.SubscribedTopics(names=["t"]),
            "owned": pb.AssignedPartitions(),
        }
        return await self.beat(member_id, 0, **{**joining, **more})


async def _release(shard: int, epoch: int) -> None:
    raise AssertionError("nothing is released")


async def _lags(committed: Any) -> Any:
    return {partition: Lag(offset, 0, 10) for partition, offset in committed.items()}


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    coordinator = Coordinator()
    await coordinator.shards.start()
    coordinator.shards.on_image(replace(IMAGE, shards={}), IMAGE)
    await until(lambda: [status.is_served for status in coordinator.shards.statuses()] == [True])
    yield coordinator
    await coordinator.targets.stop()
    await coordinator.shards.kill()


async def test_responses_have_the_assignment_until_the_member_reports_it(coordinator: Coordinator) -> None:
    joined = await coordinator.join("m1")
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m1", 2, 5_000)
    assert joined.assignment == (await coordinator.beat("m1", 2)).assignment == ALL
    for more in ({"owned": ALL}, {}):
        went_on = await coordinator.beat("m1", 2, **more)
        assert not went_on.HasField("assignment")
        assert went_on.member_epoch == 2


@pytest.mark.story("large-target-is-made-in-one-turn")
async def test_the_target_of_a_large_group_is_made_outside_of_decisions(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_AT_ONCE", 0)
    joined = await coordinator.join("m1")
    assert joined.assignment == pb.AssignedPartitions()
    await until(lambda: not coordinator.targets._work._tasks)
    went_on = await coordinator.beat("m1", joined.member_epoch)
    assert (went_on.member_epoch, went_on.assignment) == (2, ALL)


async def test_a_target_that_fails_is_made_after_the_next_request(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(target, "_AT_ONCE", 0)
    monkeypatch.setattr(target, "_ASK_AGAIN_S", 0.0)
    with monkeypatch.context() as broken:
        broken.setattr(target_maker, "made_target", lambda work, topics: 1 / 0)
        await coordinator.join("m1")
        await until(lambda: not coordinator.targets._work._tasks)
    assert "making the target of group g failed" in caplog.text
    await coordinator.beat("m1", 1)
    await until(lambda: not coordinator.targets._work._tasks)
    assert (await coordinator.beat("m1", 1)).assignment == ALL


async def test_a_quiet_heartbeat_makes_no_call_to_the_log(coordinator: Coordinator) -> None:
    await coordinator.join("m1")
    await coordinator.beat("m1", 2, owned=ALL)
    coordinator.log.calls.clear()
    for _ in range(20):
        await coordinator.beat("m1", 2)
    assert coordinator.log.calls == []


async def test_a_quiet_heartbeat_costs_no_more_calls_than_a_classic_one(coordinator: Coordinator) -> None:
    service, member = coordinator.service, pb.Member(member_id="m1")
    await coordinator.join("m1")
    await coordinator.beat("m1", 2, owned=ALL)
    joining = pb.JoinRequest(
        group="classic", session_timeout_ms=10_000, protocol_type="consumer", protocols=[pb.Protocol(name="range")]
    )
    joined = await service.join(joining, CALLER)
    who = pb.Member(member_id=joined.member_id)
    assigned = [pb.MemberAssignment(member_id=joined.member_id)]
    await service.sync(
        pb.SyncRequest(group="classic", member=who, generation=joined.generation, assignments=assigned), CALLER
    )
    classic = pb.HeartbeatRequest(group="classic", member=who, generation=joined.generation)
    quiet = pb.ConsumerHeartbeatRequest(group="g", member=member, member_epoch=2, rebalance_timeout_ms=-1)

    of_classic = await _calls(service.heartbeat(classic, CALLER))
    of_consumer = await _calls(service.consumer_heartbeat(quiet, CALLER))
    assert of_consumer <= of_classic


async def _calls(request: Awaitable[Any]) -> int:
    """Count the calls of our own functions until the request is answered."""
    found = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal found
        found += event == "call" and "ottla_" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        await request
    finally:
        sys.setprofile(None)
    return found


async def test_a_join_is_in_the_log_before_its_response(coordinator: Coordinator) -> None:
    coordinator.log.calls.clear()
    await coordinator.join("m1")
    assert isinstance(coordinator.log.calls[-1], Append)


async def test_a_member_without_an_id_gets_one_only_in_version_0(coordinator: Coordinator) -> None:
    assert (await coordinator.join("", gives_no_id=True)).member_id == "chosen"
    for request in (coordinator.join(""), coordinator.beat("", 2, gives_no_id=True)):
        with pytest.raises(OttlaError) as caught:
            await request
        assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_a_group_is_listed_and_described_with_its_type(coordinator: Coordinator) -> None:
    await coordinator.join("m1", rack="r", assignor="range")
    (listed,) = (await coordinator.service.list_groups(pb.ListGroupsRequest(types=["Consumer"]), CALLER)).groups
    assert (listed.group, listed.type, listed.state, listed.protocol_type, listed.members) == (
        "g",
        "consumer",
        "Stable",
        "consumer",
        1,
    )
    assert not (await coordinator.service.list_groups(pb.ListGroupsRequest(types=["classic"]), CALLER)).groups
    found = await coordinator.service.describe_groups(pb.DescribeGroupsRequest(groups=["g"]), CALLER)
    (group,) = found.groups
    assert (group.type, group.generation, group.assignment_epoch, group.assignor) == ("consumer", 2, 2, "range")
    (member,) = group.members
    assert (member.member.member_id, member.client_id, member.session_timeout_ms) == ("m1", "client", 45_000)
    assert (member.consumer.epoch, member.consumer.rack, member.consumer.state) == (2, "r", "stable")
    assert member.consumer.assigned == member.consumer.target == ALL
    assert not member.consumer.is_classic


async def test_the_lag_of_a_group_names_its_readers(coordinator: Coordinator) -> None:
    await coordinator.join("m1")
    lag = await coordinator.service.lag(pb.LagRequest(group="g"), CALLER)
    assert {(each.partition, each.member_id) for each in lag.partitions} == {(n, "m1") for n in range(4)}


async def test_the_history_names_the_owners_for_which_members_wait(coordinator: Coordinator) -> None:
    await coordinator.join("m1")
    await coordinator.join("m2")
    await coordinator.beat("m1", 2)
    await coordinator.beat("m1", 2, owned=(await coordinator.beat("m1", 2, owned=ALL)).assignment)
    await coordinator.beat("m2", 3)
    told = await coordinator.service.explain_group(pb.ExplainGroupRequest(group="g"), CALLER)
    events = [(event.kind, event.member.member_id, event.cause) for event in told.events]
    assert ("waits", "m2", "waits for t-2 (owned by m1), t-3 (owned by m1)") in events
    assert ("revokes", "m1", "has to give up t-2, t-3") in events
    assert events[-1] == ("settled", "", "every member has its assignment")


async def test_only_a_group_without_members_can_be_deleted(coordinator: Coordinator) -> None:
    await coordinator.join("m1")
    deletion = pb.DeleteGroupsRequest(groups=["g"])
    (refused,) = (await coordinator.service.delete_groups(deletion, CALLER)).groups
    assert refused.error.code == ErrorCode.NON_EMPTY_GROUP
    await coordinator.beat("m1", -1)
    (deleted,) = (await coordinator.service.delete_groups(deletion, CALLER)).groups
    assert not deleted.error.code
    assert not (await coordinator.service.list_groups(pb.ListGroupsRequest(), CALLER)).groups


async def test_a_member_commits_and_fetches_with_its_epoch(coordinator: Coordinator) -> None:
    await coordinator.join("m1")
    member = pb.Member(member_id="m1")
    offsets = [pb.OffsetToCommit(topic="t", partition=0, offset=3)]
    commit = pb.CommitOffsetsRequest(group="g", member=member, generation=2, offsets=offsets)
    assert not (await coordinator.service.commit_offsets(commit, CALLER)).partitions[0].error.code
    fetch = pb.FetchOffsetsRequest(group="g", partitions=[pb.GroupPartition(topic="t")], member=member, generation=2)
    fetched = await coordinator.service.fetch_offsets(fetch, CALLER)
    assert [(each.partition, each.offset) for each in fetched.offsets] == [(0, 3)]
    fetch.generation = 1
    with pytest.raises(OttlaError) as caught:
        await coordinator.service.fetch_offsets(fetch, CALLER)
    assert caught.value.code == ErrorCode.STALE_MEMBER_EPOCH


async def test_rebalances_and_moves_are_counted(coordinator: Coordinator) -> None:
    await coordinator.join("m1")
    await coordinator.join("m2")
    samples = coordinator.metrics.samples
    rebalances = cast("Any", samples["ottla_group_rebalances_total"])
    assert {key[0][1]: counter.value for key, counter in rebalances.items() if counter.value} == {"joined": 2}
    (moved,) = cast("Any", samples["ottla_group_partitions_moved_total"]).values()
    assert moved.value == 2
