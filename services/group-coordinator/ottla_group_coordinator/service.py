"""The Group contract has one method per RPC. Protobuf stops here, and the group's shard decides."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shard import Decide, ShardDecision
from ottla_core.coordination.shards import Shards, owned_among, shards_response
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import TopicId, TopicPartition
from ottla_core.rpc.bounds import check_few
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.parts import MOST_GROUPS
from ottla_core.rpc.status import error_message
from ottla_group_coordinator.commits_in_transactions import CommitsInTransactions
from ottla_group_coordinator.consumer_messages import consumer_response, heartbeat_of
from ottla_group_coordinator.deleted_topics import MetadataCatchUp
from ottla_group_coordinator.group_metrics import GroupMetrics
from ottla_group_coordinator.lag import NOTHING_COMMITTED, LagReader
from ottla_group_coordinator.machines.consumer.member import ConsumerMember
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeatAnswer
from ottla_group_coordinator.machines.dispatch import (
    decide_consumer_request,
    decide_heartbeat_request,
    decide_join_request,
    decide_leave_request,
    decide_quiet_request,
    decide_sync_request,
)
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.membership import (
    CallerIdentity,
    Join,
    Sync,
)
from ottla_group_coordinator.machines.offsets import (
    NO_GENERATION,
    AnyGroup,
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
from ottla_group_coordinator.responses import assigned, described, event, listed, partition_lag
from ottla_group_coordinator.shared_answers import SharedAnswers
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import ShardNumbers, ShardsRequest, ShardsResponse

_JOIN_S: Final = 1_800.0
"""A join waits as long as its group's rebalance. Its client's deadline ends it before that."""

_ASK_S: Final = 30.0
_LAG_S: Final = 30.0

_MOST_MEMBERS: Final = 5_000
_MOST_PROTOCOLS: Final = 1_000
_MOST_PARTITIONS: Final = 10_000
_DESCRIBED_BYTES: Final = 1 << 20
"""A response of this size gets no further group."""

_CATCH_UP_S: Final = 1.0
"""How long to wait for newer metadata if a topic looks unknown: this coordinator may be the last to learn of it."""

_INT32_MAX: Final = 2**31 - 1  # the largest number that a record holds

GroupDecide = Decide[GroupShard]


class _Positions(NamedTuple):
    """A group's members, and what it has committed, at one moment."""

    members: Sequence[Member | ConsumerMember]
    committed: Mapping[TopicPartition, CommittedOffset]


class Metadata(MetadataCatchUp, Protocol):
    @property
    def image(self) -> ClusterImage: ...


class GroupService:
    """`new_id` returns the ends of member ids. `node_id` is the instance's."""

    def __init__(
        self,
        shards: Shards[GroupShard],
        metadata: Metadata,
        node_id: int,
        lag: LagReader,
        metrics: GroupMetrics,
        transactions: CommitsInTransactions,
        *,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._shards: Final = shards
        self._metadata: Final = metadata
        self._node_id: Final = node_id
        self._lag: Final = lag
        self._lags: Final = SharedAnswers(self._measured_lag, limit_s=_LAG_S)
        self._metrics: Final = metrics
        self._transactions: Final = transactions
        self._new_id: Final = new_id
        self._keys: Final = itertools.count(1)

    # ---- members ----------------------------------------------------------------------------------------------------

    async def join(self, request: pb.JoinRequest, context: RequestContext) -> pb.JoinResponse:
        check_few(len(request.protocols), "protocols", _MOST_PROTOCOLS)
        client_id = request.client_id or context.client_id
        join = Join(
            identity=_identity(request.member),
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

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            return decide_join_request(shard, request.group, join, now)

        result = await self._shards.ask(request.group, decide, timeout=_JOIN_S, size_bytes=request.ByteSize())
        if isinstance(result, MemberIdRequiredError):
            return pb.JoinResponse(error=error_message(result), member_id=result.member_id)
        return _join_response(_raise_if_error(result))

    async def sync(self, request: pb.SyncRequest, context: RequestContext) -> pb.SyncResponse:
        check_few(len(request.assignments), "assignments", _MOST_PARTITIONS)
        sync = Sync(
            identity=_identity(request.member),
            generation=request.generation,
            key=next(self._keys),
            protocol_type=request.protocol_type,
            protocol=request.protocol,
            assignments={item.member_id: item.assignment for item in request.assignments},
        )
        check_group_id(request.group)

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            return decide_sync_request(shard, request.group, sync, now)

        synced: Synced = _raise_if_error(
            await self._shards.ask(request.group, decide, timeout=_JOIN_S, size_bytes=request.ByteSize())
        )
        return pb.SyncResponse(
            protocol_type=synced.protocol_type, protocol=synced.protocol, assignment=synced.assignment
        )

    async def heartbeat(self, request: pb.HeartbeatRequest, context: RequestContext) -> pb.HeartbeatResponse:
        check_group_id(request.group)
        _raise_if_error(
            await self._shards.ask(request.group, _decide_heartbeat(request), timeout=_ASK_S, without_confirmation=True)
        )
        return pb.HeartbeatResponse()

    async def leave(self, request: pb.LeaveRequest, context: RequestContext) -> pb.LeaveResponse:
        check_group_id(request.group)
        check_few(len(request.members), "members", _MOST_MEMBERS)
        leavers = [(_identity(leaver.member), leaver.reason) for leaver in request.members]

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            return decide_leave_request(shard, request.group, leavers, now)

        outcomes = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        return pb.LeaveResponse(
            members=[
                pb.Left(member=leaver.member, error=_error(outcome))
                for leaver, outcome in zip(request.members, outcomes, strict=True)
            ]
        )

    async def consumer_heartbeat(
        self, request: pb.ConsumerHeartbeatRequest, context: RequestContext
    ) -> pb.ConsumerHeartbeatResponse:
        group_id, heartbeat = request.group, heartbeat_of(request, self._new_id, context)
        recalled = self._shards.recall(
            group_id, lambda shard, now: decide_quiet_request(shard, group_id, heartbeat, now)
        )
        if recalled is not None:
            return consumer_response(recalled.response)

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[ConsumerHeartbeatAnswer]:
            return decide_consumer_request(shard, group_id, heartbeat, now)

        answer = await self._shards.ask(group_id, decide, timeout=_ASK_S, size_bytes=request.ByteSize())
        return consumer_response(answer)

    # ---- offsets ----------------------------------------------------------------------------------------------------

    async def commit_offsets(
        self, request: pb.CommitOffsetsRequest, context: RequestContext
    ) -> pb.CommitOffsetsResponse:
        check_group_id(request.group, empty=request.generation < 0)
        check_few(len(request.offsets), "offsets", _MOST_PARTITIONS)
        commits = [
            ToCommit(
                TopicPartition(item.topic, item.partition),
                item.offset,
                item.leader_epoch if item.HasField("leader_epoch") else NO_LEADER_EPOCH,
                item.metadata,
                TopicId(item.topic_id) if item.topic_id else None,
            )
            for item in request.offsets
        ]
        if any(check_topic(item, self._metadata.image.topics) for item in commits):
            with suppress(OttlaError):  # they are then judged by the metadata as it is
                await self._caught_up()

        in_transaction = request.HasField("transaction")

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            group: AnyGroup = shard.any_group(request.group) or shard.group_or_new(request.group)
            topics = self._metadata.image.topics
            identity, generation = _identity(request.member), request.generation
            return decide_commit(
                group,
                identity,
                generation,
                commits,
                topics,
                shard.settings,
                now,
                in_transaction=in_transaction,
                but=shard.committed_in(request.group, topics) if request.only_first else (),
                knows_no_epochs=request.knows_no_epochs,
            )

        if in_transaction:
            outcomes = await self._transactions.commit(request, decide)
        else:
            outcomes = await self._shards.ask(request.group, decide, timeout=_ASK_S, size_bytes=request.ByteSize())
        self._metrics.commit(outcomes.count(None))
        partitions = [item.partition for item in commits]
        return pb.CommitOffsetsResponse(partitions=_outcomes(partitions, outcomes))

    async def write_txn_markers(
        self, request: pb.WriteShardMarkersRequest, context: RequestContext
    ) -> pb.WriteShardMarkersResponse:
        check_few(sum(len(item.shards) for item in request.markers), "markers", _MOST_PARTITIONS)
        return await self._transactions.write_markers(request)

    async def fetch_offsets(self, request: pb.FetchOffsetsRequest, context: RequestContext) -> pb.FetchOffsetsResponse:
        check_group_id(request.group, empty=True)
        check_few(len(request.partitions), "partitions", _MOST_PARTITIONS)
        requested = [TopicPartition(item.topic, item.partition) for item in request.partitions]

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            offsets = shard.offsets(request.group)
            if request.HasField("member"):
                shard.check_reader(request.group, _identity(request.member), request.generation)
            unstable = shard.pending.partitions(request.group) if request.require_stable else ()
            partitions = sorted({*offsets, *unstable}) if request.all else requested
            return ShardDecision(([(p, offsets.get(p)) for p in partitions], frozenset(unstable)))

        found, unstable = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        gone = await self._of_gone_topics(found)
        offsets = [(p, None if p in gone else o) for p, o in found if not (request.all and p in gone)]
        return pb.FetchOffsetsResponse(
            offsets=[_unstable(p) if p in unstable and p not in gone else _committed(p, o) for p, o in offsets]
        )

    async def _of_gone_topics(
        self, found: Sequence[tuple[TopicPartition, CommittedOffset | None]]
    ) -> frozenset[TopicPartition]:
        """Return the partitions of deleted topics whose offsets are not deleted yet.

        A coordinator that is behind would find some by mistake, and the group would start over. So it raises
        COORDINATOR_NOT_AVAILABLE if it can't catch up.
        """

        def look(image: ClusterImage) -> frozenset[TopicPartition]:
            return frozenset(p for p, o in found if o is not None and is_of_gone(p, o, image.topics))

        return look(await self._caught_up()) if look(self._metadata.image) else frozenset()

    async def _caught_up(self) -> ClusterImage:
        try:
            return await self._metadata.catch_up(_CATCH_UP_S)
        except (StoreUnavailableError, TimeoutError) as error:
            raise OttlaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"can't determine whether the topics exist: {error}",
                hint="try again",
            ) from error

    async def delete_offsets(
        self, request: pb.DeleteOffsetsRequest, context: RequestContext
    ) -> pb.DeleteOffsetsResponse:
        check_group_id(request.group, empty=True)
        check_few(len(request.partitions), "partitions", _MOST_PARTITIONS)
        requested = [TopicPartition(item.topic, item.partition) for item in request.partitions]

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            return decide_delete_offsets(shard.group(request.group), shard.partitions(request.group), requested)

        outcomes = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        return pb.DeleteOffsetsResponse(partitions=_outcomes(requested, outcomes))

    # ---- groups -----------------------------------------------------------------------------------------------------

    async def list_groups(self, request: pb.ListGroupsRequest, context: RequestContext) -> pb.ListGroupsResponse:
        """List the groups of the shards that this coordinator serves, and name those shards.

        The error of a shard that is loading stands beside what is known.
        """
        response, matches = pb.ListGroupsResponse(shards=ShardNumbers()), _Filter(request)
        numbers = owned_among(self._shards, request.shards if request.HasField("shards") else None)
        for number, listed_groups in zip(numbers, await asyncio.gather(*map(self._listed, numbers)), strict=True):
            if isinstance(listed_groups, OttlaError):
                response.error.CopyFrom(error_message(listed_groups))
                continue
            response.shards.numbers.append(number)
            for group in listed_groups:
                if matches(group):
                    group.shard, group.coordinator = number, self._node_id
                    response.groups.append(group)
        return response

    async def _listed(self, shard: int) -> list[pb.ListedGroup] | OttlaError:
        try:
            groups: list[pb.ListedGroup] = await self._shards.ask_shard(
                shard, lambda held, now: ShardDecision(listed(held)), timeout=_ASK_S
            )
        except OttlaError as error:
            return error
        return groups

    async def describe_groups(
        self, request: pb.DescribeGroupsRequest, context: RequestContext
    ) -> pb.DescribeGroupsResponse:
        """Describe the first groups of the request, at least one, until the response is large. The caller asks for the
        other groups, and for the other members of the last one. Consecutive groups of one shard take one decision."""
        check_few(len(request.groups), "groups", MOST_GROUPS)
        response, after, left_bytes = pb.DescribeGroupsResponse(), request.after_member, _DESCRIBED_BYTES
        for number, group_ids in itertools.groupby(request.groups, self._shards.shard_of):
            for description in await self._described(number, list(group_ids), after, left_bytes):
                description.shard, description.coordinator = number, self._node_id
                response.groups.append(description)
                left_bytes -= description.ByteSize()
            after = ""
            if left_bytes <= 0 or response.groups[-1].has_more:
                break
        return response

    async def _described(
        self, number: int, group_ids: Sequence[str], after: str, left_bytes: int
    ) -> list[pb.GroupDescription]:
        try:
            found: list[pb.GroupDescription] = await self._shards.ask_shard(
                number, lambda shard, now: ShardDecision(described(shard, group_ids, after, left_bytes)), timeout=_ASK_S
            )
        except OttlaError as error:
            return [pb.GroupDescription(group=group_id, error=error_message(error)) for group_id in group_ids]
        return found

    async def delete_groups(self, request: pb.DeleteGroupsRequest, context: RequestContext) -> pb.DeleteGroupsResponse:
        return pb.DeleteGroupsResponse(groups=[await self._delete(group_id) for group_id in request.groups])

    async def _delete(self, group_id: str) -> pb.GroupDeleted:
        def decide(shard: GroupShard, now: Moment) -> ShardDecision[None]:
            return decide_delete_group(shard.group(group_id), shard.partitions(group_id))

        try:
            check_group_id(group_id, empty=True)
            await self._shards.ask(group_id, decide, timeout=_ASK_S)
        except OttlaError as error:
            return pb.GroupDeleted(group=group_id, error=error_message(error))
        return pb.GroupDeleted(group=group_id)

    async def explain_group(self, request: pb.ExplainGroupRequest, context: RequestContext) -> pb.ExplainGroupResponse:
        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            shard.group(request.group)  # it raises if there is no such group
            return ShardDecision(shard.history.of(request.group))

        events = await self._shards.ask(request.group, decide, timeout=_ASK_S)
        return pb.ExplainGroupResponse(
            events=[event(item) for item in events], since_ms=events[0].at_ms if events else 0
        )

    async def lag(self, request: pb.LagRequest, context: RequestContext) -> pb.LagResponse:
        """Return how far a group is behind. The ends of the partitions are as they were at most a second ago."""

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            members: Sequence[Member | ConsumerMember] = tuple(shard.group(request.group).members.values())
            return ShardDecision(_Positions(members, shard.offsets(request.group).copy()))

        return await self._lags.of(request.group, await self._shards.ask(request.group, decide, timeout=_ASK_S))

    async def _measured_lag(self, positions: _Positions) -> pb.LagResponse:
        members, committed = positions
        time_slice = Slice()
        readers = await assigned(members, self._metadata.image, time_slice)
        offsets = dict.fromkeys(readers, NOTHING_COMMITTED) | {p: o.offset for p, o in committed.items()}
        lags = await self._lag.lags(offsets)
        response = pb.LagResponse()
        for partition in sorted(lags):
            await time_slice.rest()
            response.partitions.append(partition_lag(partition, lags[partition], readers.get(partition)))
        return response

    async def shards(self, request: ShardsRequest, context: RequestContext) -> ShardsResponse:
        return shards_response(self._shards.statuses(), self._node_id)


def check_group_id(group_id: str, *, empty: bool = False) -> None:
    """Raise INVALID_GROUP_ID. Kafka lets an empty id keep offsets, but have no members."""
    if not group_id and not empty:
        raise OttlaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty", hint="set a group.id")


def _identity(member: pb.Member) -> CallerIdentity:
    return CallerIdentity(member.member_id, member.instance_id if member.HasField("instance_id") else None)


def _raise_if_error(result: Any) -> Any:
    """Return the result, or raise it if it is an error. Some responses are errors, because their decisions have to be
    remembered."""
    if isinstance(result, OttlaError):
        raise result
    return result


def _decide_heartbeat(request: pb.HeartbeatRequest) -> GroupDecide:
    def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
        return decide_heartbeat_request(shard, request.group, _identity(request.member), request.generation, now)

    return decide


def _join_response(joined: Joined) -> pb.JoinResponse:
    return pb.JoinResponse(
        generation=joined.generation,
        protocol_type=joined.protocol_type,
        protocol=joined.protocol,
        leader=joined.leader,
        member_id=joined.member_id,
        members=[
            pb.Subscriber(member=pb.Member(member_id=s.member_id, instance_id=s.instance_id), metadata=s.metadata)
            for s in joined.members
        ],
        skip_assignment=joined.skip_assignment,
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
        topic_id=found.topic_id,
    )


def _unstable(partition: TopicPartition) -> pb.CommittedOffset:
    error = OttlaError(
        ErrorCode.UNSTABLE_OFFSET_COMMIT, f"an open transaction has offsets for {partition}", hint="try again"
    )
    return pb.CommittedOffset(
        topic=partition.topic, partition=partition.partition, offset=NO_GENERATION, error=error_message(error)
    )


class _Filter:
    """Tells whether a group is to be listed. All groups are, unless states or types are named."""

    def __init__(self, request: pb.ListGroupsRequest) -> None:
        self._states: Final = {state.lower() for state in request.states}
        self._types: Final = {type_.lower() for type_ in request.types}

    def __call__(self, group: pb.ListedGroup) -> bool:
        has_state = not self._states or group.state.lower() in self._states
        return has_state and (not self._types or group.type.lower() in self._types)
