"""The Group contract: one method per RPC. Protobuf stops here; what is asked goes to the shard that owns the group."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shard import Decide, Decision
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import error_message
from ottla_group_coordinator.group_metrics import GroupMetrics
from ottla_group_coordinator.lag import NOTHING_COMMITTED, LagReader
from ottla_group_coordinator.machines.membership import (
    Join,
    Sync,
    Who,
    decide_heartbeat,
    decide_join,
    decide_leave,
    decide_sync,
)
from ottla_group_coordinator.machines.offsets import (
    NO_GENERATION,
    ToCommit,
    check_topic,
    decide_commit,
    decide_delete_group,
    decide_delete_offsets,
    is_of_gone,
)
from ottla_group_coordinator.machines.records import NO_LEADER_EPOCH, CommittedOffset
from ottla_group_coordinator.machines.responses import Joined, MemberIdRequiredError, Synced
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.responses import assigned, described, event, explained, listed, partition_lag
from ottla_proto import group_pb2 as pb

_JOIN_S: Final = 1_800.0
"""A join waits as long as its group's rebalance: its client's deadline ends it before that."""

_ASK_S: Final = 30.0

_TOGETHER_S: Final = 0.2
"""For heartbeats that came together: a shard is proved in milliseconds, or its log has trouble."""

_MOST_BEATS: Final = 1_000
"""In one call, which holds the loop."""
_MOST_MEMBERS: Final = 5_000
_MOST_PROTOCOLS: Final = 1_000
_MOST_PARTITIONS: Final = 10_000

_CATCH_UP_S: Final = 1.0
"""For the metadata, where a topic looks unknown: this coordinator may be the last to hear of it."""

_INT32_MAX: Final = 2**31 - 1  # what a record holds

GroupDecide = Decide[GroupShard]


class Metadata(Protocol):
    """What this instance knows of the cluster (ottla_core.cluster.follower)."""

    @property
    def image(self) -> ClusterImage: ...

    async def catch_up(self, timeout: float) -> ClusterImage:
        """Raises StoreUnavailableError, TimeoutError or OttlaError."""
        ...


class GroupService:
    """`new_id` makes what member ids end in; `node_id` is the instance's."""

    def __init__(
        self,
        shards: Shards[GroupShard],
        metadata: Metadata,
        node_id: int,
        lag: LagReader,
        metrics: GroupMetrics,
        *,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._shards: Final = shards
        self._metadata: Final = metadata
        self._node_id: Final = node_id
        self._lag: Final = lag
        self._metrics: Final = metrics
        self._new_id: Final = new_id
        self._keys: Final = itertools.count(1)

    # ---- members ----------------------------------------------------------------------------------------------------

    async def join(self, request: pb.JoinRequest, context: RequestContext) -> pb.JoinResponse:
        check_few(len(request.protocols), "protocols", _MOST_PROTOCOLS)
        client_id = request.client_id or context.client_id
        asked = Join(
            who=_who(request.member),
            fresh_id=f"{request.member.instance_id or client_id}-{self._new_id()}",
            key=next(self._keys),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=min(request.rebalance_timeout_ms or request.session_timeout_ms, _INT32_MAX),
            protocol_type=request.protocol_type,
            protocols={protocol.name: protocol.metadata for protocol in request.protocols},
            client_id=client_id,
            client_host=request.client_host or context.client_host,
            member_id_required=request.member_id_required,
            skips_assignment=request.skips_assignment,
            reason=request.reason,
        )
        check_group_id(request.group)

        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            group = shard.group_or_new(request.group)
            return decide_join(group, asked, shard.settings, now)

        told = await self._shards.ask(request.group, decide, timeout=_JOIN_S, size_bytes=request.ByteSize())
        if isinstance(told, MemberIdRequiredError):
            return pb.JoinResponse(error=error_message(told), member_id=told.member_id)
        return _join_response(_answer(told))

    async def sync(self, request: pb.SyncRequest, context: RequestContext) -> pb.SyncResponse:
        check_few(len(request.assignments), "assignments", _MOST_PARTITIONS)
        asked = Sync(
            who=_who(request.member),
            generation=request.generation,
            key=next(self._keys),
            protocol_type=request.protocol_type,
            protocol=request.protocol,
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        check_group_id(request.group)

        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            return decide_sync(shard.group_or_new(request.group), asked, shard.settings, now)

        told: Synced = _answer(
            await self._shards.ask(request.group, decide, timeout=_JOIN_S, size_bytes=request.ByteSize())
        )
        return pb.SyncResponse(protocol_type=told.protocol_type, protocol=told.protocol, assignment=told.assignment)

    async def heartbeat(self, request: pb.HeartbeatRequest, context: RequestContext) -> pb.HeartbeatResponse:
        check_group_id(request.group)
        _answer(await self._shards.ask(request.group, _decide_beat(request), timeout=_ASK_S, without_confirmation=True))
        return pb.HeartbeatResponse()

    async def heartbeats(self, request: pb.HeartbeatsRequest, context: RequestContext) -> pb.HeartbeatsResponse:
        """Each as if it had come alone, but those whose shard takes long to prove: REQUEST_TIMED_OUT."""
        check_few(len(request.heartbeats), "heartbeats", _MOST_BEATS)
        beats = [self._begin_beat(each) for each in request.heartbeats]
        if waiting := [beat for beat in beats if isinstance(beat, asyncio.Future) and not beat.done()]:
            try:
                await asyncio.wait(waiting, timeout=_TOGETHER_S)
            finally:
                for beat in waiting:
                    beat.cancel()  # nobody waits for it any more
        return pb.HeartbeatsResponse(heartbeats=map(_beat_response, beats))

    def _begin_beat(self, request: pb.HeartbeatRequest) -> asyncio.Future[Any] | OttlaError:
        try:
            check_group_id(request.group)
            shard = self._shards.shard_of(request.group)
        except OttlaError as error:
            return error
        return self._shards.begin(shard, _decide_beat(request), timeout=_ASK_S, without_confirmation=True)

    async def leave(self, request: pb.LeaveRequest, context: RequestContext) -> pb.LeaveResponse:
        check_group_id(request.group)
        check_few(len(request.members), "members", _MOST_MEMBERS)
        leavers = [(_who(each.member), each.reason) for each in request.members]

        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            return decide_leave(shard.group_or_new(request.group), leavers, shard.settings, now)

        outcomes = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        return pb.LeaveResponse(
            members=[
                pb.Left(member=each.member, error=_error(outcome))
                for each, outcome in zip(request.members, outcomes, strict=True)
            ]
        )

    # ---- offsets ----------------------------------------------------------------------------------------------------

    async def commit_offsets(
        self, request: pb.CommitOffsetsRequest, context: RequestContext
    ) -> pb.CommitOffsetsResponse:
        check_group_id(request.group, empty=request.generation < 0)
        check_few(len(request.offsets), "offsets", _MOST_PARTITIONS)
        wanted = [
            ToCommit(
                TopicPartition(each.topic, each.partition),
                each.offset,
                each.leader_epoch if each.HasField("leader_epoch") else NO_LEADER_EPOCH,
                each.metadata,
                TopicId(each.topic_id) if each.topic_id else None,
            )
            for each in request.offsets
        ]
        if any(check_topic(each, self._metadata.image.topics) for each in wanted):
            with suppress(OttlaError):  # then they are refused by what is known
                await self._caught_up()

        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            group, topics = shard.group_or_new(request.group), self._metadata.image.topics
            return decide_commit(group, _who(request.member), request.generation, wanted, topics, shard.settings, now)

        outcomes = await self._shards.ask(request.group, decide, timeout=_ASK_S, size_bytes=request.ByteSize())
        self._metrics.commit(outcomes.count(None))
        partitions = [each.partition for each in wanted]
        return pb.CommitOffsetsResponse(partitions=_outcomes(partitions, outcomes))

    async def fetch_offsets(self, request: pb.FetchOffsetsRequest, context: RequestContext) -> pb.FetchOffsetsResponse:
        check_group_id(request.group, empty=True)
        check_few(len(request.partitions), "partitions", _MOST_PARTITIONS)
        wanted = [TopicPartition(each.topic, each.partition) for each in request.partitions]

        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            offsets = shard.offsets(request.group)
            if request.HasField("member"):
                shard.check_reader(request.group, _who(request.member), request.generation)
            unstable = shard.pending.partitions(request.group) if request.require_stable else ()
            asked = sorted({*offsets, *unstable}) if request.all else wanted
            return Decision(([(p, offsets.get(p)) for p in asked], frozenset(unstable)))

        found, unstable = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        gone = await self._of_gone_topics(found)
        told = [(p, None if p in gone else o) for p, o in found if not (request.all and p in gone)]
        return pb.FetchOffsetsResponse(
            offsets=[_unstable(p) if p in unstable and p not in gone else _committed(p, o) for p, o in told]
        )

    async def _of_gone_topics(
        self, found: Sequence[tuple[TopicPartition, CommittedOffset | None]]
    ) -> frozenset[TopicPartition]:
        """What was committed in topics that are gone and is not yet taken out. Whoever is behind sees some where there
        are none, and would have a group begin anew: raises COORDINATOR_NOT_AVAILABLE where that can't be told."""

        def look(image: ClusterImage) -> frozenset[TopicPartition]:
            return frozenset(p for p, o in found if o is not None and is_of_gone(p, o, image.topics))

        return look(await self._caught_up()) if look(self._metadata.image) else frozenset()

    async def _caught_up(self) -> ClusterImage:
        try:
            return await self._metadata.catch_up(_CATCH_UP_S)
        except (StoreUnavailableError, TimeoutError) as error:
            raise OttlaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"whether topics are there can't be told: {error}",
                hint="try again",
            ) from error

    async def delete_offsets(
        self, request: pb.DeleteOffsetsRequest, context: RequestContext
    ) -> pb.DeleteOffsetsResponse:
        check_group_id(request.group, empty=True)
        check_few(len(request.partitions), "partitions", _MOST_PARTITIONS)
        wanted = [TopicPartition(each.topic, each.partition) for each in request.partitions]

        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            return decide_delete_offsets(shard.group(request.group), shard.partitions(request.group), wanted)

        outcomes = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        return pb.DeleteOffsetsResponse(partitions=_outcomes(wanted, outcomes))

    # ---- groups -----------------------------------------------------------------------------------------------------

    async def list_groups(self, request: pb.ListGroupsRequest, context: RequestContext) -> pb.ListGroupsResponse:
        """A shard that is loading makes the whole answer incomplete, and says so beside what is known."""
        response, is_wanted = pb.ListGroupsResponse(), _Filter(request)
        numbers = self._shards.owned()
        for number, told in zip(numbers, await asyncio.gather(*map(self._listed, numbers)), strict=True):
            if isinstance(told, OttlaError):
                response.error.CopyFrom(error_message(told))
                continue
            for group in told:
                if is_wanted(group):
                    group.shard, group.coordinator = number, self._node_id
                    response.groups.append(group)
        return response

    async def _listed(self, shard: int) -> list[pb.ListedGroup] | OttlaError:
        try:
            told: list[pb.ListedGroup] = await self._shards.ask_shard(
                shard, lambda held, now: Decision(listed(held)), timeout=_ASK_S
            )
        except OttlaError as error:
            return error
        return told

    async def describe_groups(
        self, request: pb.DescribeGroupsRequest, context: RequestContext
    ) -> pb.DescribeGroupsResponse:
        return pb.DescribeGroupsResponse(groups=[await self._describe(group_id) for group_id in request.groups])

    async def _describe(self, group_id: str) -> pb.GroupDescription:
        try:
            check_group_id(group_id, empty=True)
            told: pb.GroupDescription = await self._shards.ask(
                group_id, lambda shard, now: Decision(described(shard.group(group_id))), timeout=_ASK_S
            )
        except OttlaError as error:
            return pb.GroupDescription(group=group_id, error=error_message(error))
        told.shard, told.coordinator = self._shards.shard_of(group_id), self._node_id
        return told

    async def delete_groups(self, request: pb.DeleteGroupsRequest, context: RequestContext) -> pb.DeleteGroupsResponse:
        return pb.DeleteGroupsResponse(groups=[await self._delete(group_id) for group_id in request.groups])

    async def _delete(self, group_id: str) -> pb.GroupDeleted:
        def decide(shard: GroupShard, now: Moment) -> Decision[None]:
            return decide_delete_group(shard.group(group_id), shard.partitions(group_id))

        try:
            check_group_id(group_id, empty=True)
            await self._shards.ask(group_id, decide, timeout=_ASK_S)
        except OttlaError as error:
            return pb.GroupDeleted(group=group_id, error=error_message(error))
        return pb.GroupDeleted(group=group_id)

    async def explain_group(self, request: pb.ExplainGroupRequest, context: RequestContext) -> pb.ExplainGroupResponse:
        events = await self._shards.ask(
            request.group, lambda shard, now: Decision(explained(shard.group(request.group))), timeout=_ASK_S
        )
        return pb.ExplainGroupResponse(
            events=[event(each) for each in events], since_ms=events[0].at_ms if events else 0
        )

    async def lag(self, request: pb.LagRequest, context: RequestContext) -> pb.LagResponse:
        def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
            group = shard.group(request.group)
            return Decision((assigned(group), {p: o.offset for p, o in shard.offsets(request.group).items()}))

        members, committed = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        lags = await self._lag.lags(dict.fromkeys(members, NOTHING_COMMITTED) | committed)
        return pb.LagResponse(partitions=[partition_lag(p, lags[p], members.get(p)) for p in sorted(lags)])

    async def shards(self, request: pb.ShardsRequest, context: RequestContext) -> pb.ShardsResponse:
        return pb.ShardsResponse(
            shards=[
                pb.ShardStanding(
                    shard=each.shard,
                    phase=each.phase.value,
                    for_ms=int(each.for_s * 1000),
                    next_offset=each.next_offset,
                    trouble=each.trouble,
                    unreadable=each.state.unreadable,
                    coordinator=self._node_id,
                )
                for each in self._shards.statuses()
            ]
        )


def check_few(count: int, what: str, most: int) -> None:
    """Raise INVALID_REQUEST for more than one turn of the loop has time for."""
    if count > most:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{count} {what} are more than the {most} that one call may bring",
            hint="make several calls of it",
        )


def check_group_id(group_id: str, *, empty: bool = False) -> None:
    """Raise INVALID_GROUP_ID; Kafka lets an empty id keep offsets, but have no members."""
    if not group_id and not empty:
        raise OttlaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty", hint="give a group.id")


def _who(member: pb.Member) -> Who:
    return Who(member.member_id, member.instance_id if member.HasField("instance_id") else None)


def _answer(told: Any) -> Any:
    """Some answers are refusals, for what they come from is to be remembered."""
    if isinstance(told, OttlaError):
        raise told
    return told


def _decide_beat(request: pb.HeartbeatRequest) -> GroupDecide:
    def decide(shard: GroupShard, now: Moment) -> Decision[Any]:
        group = shard.group_or_new(request.group)
        return decide_heartbeat(group, _who(request.member), request.generation, now)

    return decide


def _beat_response(beat: asyncio.Future[Any] | OttlaError) -> pb.HeartbeatResponse:
    told = beat if isinstance(beat, OttlaError) else _outcome(beat)
    return pb.HeartbeatResponse() if told is None else pb.HeartbeatResponse(error=error_message(told))


def _outcome(beat: asyncio.Future[Any]) -> OttlaError | None:
    if beat.cancelled():
        words = "its shard could not be proved while others waited"
        return OttlaError(ErrorCode.REQUEST_TIMED_OUT, words, hint="ask for it alone")
    error = beat.exception()
    if error is None:
        told: OttlaError | None = beat.result()
        return told
    return error if isinstance(error, OttlaError) else OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug; see the log")


def _join_response(told: Joined) -> pb.JoinResponse:
    return pb.JoinResponse(
        generation=told.generation,
        protocol_type=told.protocol_type,
        protocol=told.protocol,
        leader=told.leader,
        member_id=told.member_id,
        members=[
            pb.Subscriber(member=pb.Member(member_id=s.member_id, instance_id=s.instance_id), metadata=s.metadata)
            for s in told.members
        ],
        skip_assignment=told.skip_assignment,
    )


def _error(outcome: OttlaError | None) -> Any:
    return None if outcome is None else error_message(outcome)


def _outcomes(partitions: Sequence[TopicPartition], outcomes: Sequence[OttlaError | None]) -> list[pb.PartitionOutcome]:
    return [
        pb.PartitionOutcome(topic=partition.topic, partition=partition.partition, error=_error(outcome))
        for partition, outcome in zip(partitions, outcomes, strict=True)
    ]


def _committed(partition: TopicPartition, found: CommittedOffset | None) -> pb.CommittedOffset:
    if found is None:
        return pb.CommittedOffset(topic=partition.topic, partition=partition.partition, offset=NO_GENERATION)
    return pb.CommittedOffset(
        topic=partition.topic,
        partition=partition.partition,
        offset=found.offset,
        leader_epoch=None if found.leader_epoch < 0 else found.leader_epoch,
        metadata=found.metadata,
        committed_at_ms=found.committed_at_ms,
        topic_id=found.topic_id,
    )


def _unstable(partition: TopicPartition) -> pb.CommittedOffset:
    error = OttlaError(
        ErrorCode.UNSTABLE_OFFSET_COMMIT, f"a transaction has offsets for {partition} and is not over", hint="try again"
    )
    return pb.CommittedOffset(
        topic=partition.topic, partition=partition.partition, offset=NO_GENERATION, error=error_message(error)
    )


class _Filter:
    """Whether a group is asked for: all are, unless states or types are named."""

    def __init__(self, request: pb.ListGroupsRequest) -> None:
        self._states: Final = {state.lower() for state in request.states}
        self._types: Final = {type_.lower() for type_ in request.types}

    def __call__(self, group: pb.ListedGroup) -> bool:
        has_state = not self._states or group.state.lower() in self._states
        return has_state and (not self._types or group.type.lower() in self._types)
