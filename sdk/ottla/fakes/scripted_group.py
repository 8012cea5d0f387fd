"""The consumer groups of scripted brokers: Kafka's classic protocol in memory, for members that are honest.

Written from the protocol (KIP-62, 345, 394, 814) and on purpose not from the coordinator's code. Sessions have no end:
a member is away when it has left, or when a test lets it be forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from google.protobuf.message import Message

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

_WAIT_S = 30.0


@dataclass(slots=True)
class ScriptedMember:
    """One member; `joined` is the generation that it waits for, or is in."""

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes]
    reason: str = ""
    joined: int = -1


@dataclass(slots=True)
class ScriptedGroup:
    """One group; it is rebalancing while `gathers`. What it has committed is in `offsets`."""

    members: dict[str, ScriptedMember] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    generation: int = 0
    gathers: bool = False
    leader: str = ""
    protocol: str = ""
    assignments: dict[str, bytes] | None = None
    offsets: dict[TopicPartition, pb.OffsetToCommit] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)


class ScriptedGroups:
    """All groups. `changed` is held in every call, and released in the wait for members. `topic_ids` is as of now."""

    def __init__(self, changed: Condition, topic_ids: Mapping[str, TopicId]) -> None:
        self._changed = changed
        self._topic_ids = topic_ids
        self._groups: dict[str, ScriptedGroup] = {}
        self._ids = itertools.count(1)
        self.is_undecided: Callable[[str, TopicPartition], bool] = lambda group, partition: False
        """Whether an open transaction has offsets of the group for the partition."""

    def group(self, name: str) -> ScriptedGroup:
        """The group of that name, which may have no members yet."""
        return self._groups.setdefault(name, ScriptedGroup())

    def rebalance(self, name: str) -> None:
        """Let every member be asked to join again."""
        with self._changed:
            self._gather(self.group(name))

    def forget(self, name: str, member_id: str) -> None:
        """Let a member's session end."""
        with self._changed:
            group = self.group(name)
            del group.members[member_id]
            self._gather(group)

    def respond(self, body: Message) -> Message | None:
        """Return the coordinator's response; None for a request that does not concern it."""
        handlers: dict[type, Callable[[Any], Message]] = {
            pb.JoinRequest: self._join,
            pb.SyncRequest: self._sync,
            pb.HeartbeatRequest: self._heartbeat,
            pb.LeaveRequest: self._leave,
            pb.DescribeGroupsRequest: self._describe,
            pb.CommitOffsetsRequest: self._commit,
            pb.FetchOffsetsRequest: self._fetch,
        }
        respond = handlers.get(type(body))
        return None if respond is None else respond(body)

    def _join(self, request: pb.JoinRequest) -> pb.JoinResponse:
        group = self.group(request.group)
        instance_id = request.member.instance_id if request.member.HasField("instance_id") else None
        offers = {protocol.name: protocol.metadata for protocol in request.protocols}
        member_id = request.member.member_id
        former = next(
            (m for m in group.members.values() if instance_id is not None and m.instance_id == instance_id), None
        )
        if not member_id and former is not None:
            return self._come_back(group, former, offers)
        if not member_id:
            member_id = f"{instance_id or 'member'}-{next(self._ids)}"
            if instance_id is None:
                group.pending.add(member_id)
                error = Error(code=ErrorCode.MEMBER_ID_REQUIRED, message="come again with this id")
                return pb.JoinResponse(error=error, member_id=member_id)
        elif member_id not in group.pending:
            self._check(group, request.member)
        group.pending.discard(member_id)
        group.members[member_id] = ScriptedMember(member_id, instance_id, offers, request.reason)
        self._gather(group)
        return self._joined(group, member_id)

    def _come_back(self, group: ScriptedGroup, former: ScriptedMember, offers: dict[str, bytes]) -> pb.JoinResponse:
        """A static member: it gets another id, and the others are not told to rebalance."""
        del group.members[former.member_id]
        member = ScriptedMember(f"{former.instance_id}-{next(self._ids)}", former.instance_id, offers)
        group.members[member.member_id] = member
        if group.assignments is not None:
            group.assignments[member.member_id] = group.assignments.pop(former.member_id, b"")
        leads = group.leader == former.member_id
        group.leader = member.member_id if leads else group.leader
        member.joined = group.generation
        return self._response(group, member.member_id, skip_assignment=leads)

    def _gather(self, group: ScriptedGroup) -> None:
        group.gathers = True
        self._changed.notify_all()

    def _joined(self, group: ScriptedGroup, member_id: str) -> pb.JoinResponse:
        me = group.members[member_id]
        me.joined = group.generation + 1
        if all(member.joined > group.generation for member in group.members.values()):
            self._complete(group)
        committed = self._changed.wait_for(
            lambda: group.generation >= me.joined or group.members.get(member_id) is not me, _WAIT_S
        )
        if not committed or group.members.get(member_id) is not me:
            raise OttlaError(ErrorCode.UNKNOWN_MEMBER_ID, "the member is no longer in the group")
        return self._response(group, member_id)

    def _complete(self, group: ScriptedGroup) -> None:
        group.generation += 1
        group.gathers, group.assignments = False, None
        first = next(iter(group.members.values()))
        group.leader = group.leader if group.leader in group.members else first.member_id
        common = [name for name in first.protocols if all(name in m.protocols for m in group.members.values())]
        group.protocol = common[0]
        self._changed.notify_all()

    def _response(self, group: ScriptedGroup, member_id: str, *, skip_assignment: bool = False) -> pb.JoinResponse:
        members = [
            pb.Subscriber(
                member=pb.Member(member_id=m.member_id, instance_id=m.instance_id), metadata=m.protocols[group.protocol]
            )
            for m in group.members.values()
        ]
        return pb.JoinResponse(
            generation=group.generation,
            protocol_type="consumer",
            protocol=group.protocol,
            leader=group.leader,
            member_id=member_id,
            members=members if member_id == group.leader else (),
            skip_assignment=skip_assignment,
        )

    def _sync(self, request: pb.SyncRequest) -> pb.SyncResponse:
        group = self.group(request.group)
        self._check(group, request.member, request.generation)
        if request.member.member_id == group.leader and group.assignments is None:
            group.assignments = {
                partition_offset.member_id: partition_offset.assignment for partition_offset in request.assignments
            }
            self._changed.notify_all()
        self._changed.wait_for(
            lambda: group.assignments is not None or group.gathers or group.generation != request.generation, _WAIT_S
        )
        if group.assignments is None or group.generation != request.generation:
            raise OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, "another rebalance has begun")
        made = group.assignments.get(request.member.member_id, b"")
        return pb.SyncResponse(protocol_type="consumer", protocol=group.protocol, assignment=made)

    def _heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        group = self.group(request.group)
        self._check(group, request.member, request.generation)
        if group.gathers:
            raise OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, "join again")
        return pb.HeartbeatResponse()

    def _leave(self, request: pb.LeaveRequest) -> pb.LeaveResponse:
        group = self.group(request.group)
        for leaver in request.members:
            group.left.append((leaver.member.member_id, leaver.reason))
            group.pending.discard(leaver.member.member_id)
            if group.members.pop(leaver.member.member_id, None) is not None and group.members:
                self._gather(group)
                if all(member.joined > group.generation for member in group.members.values()):
                    self._complete(group)
        return pb.LeaveResponse(members=[pb.Left(member=leaver.member) for leaver in request.members])

    def _describe(self, request: pb.DescribeGroupsRequest) -> pb.DescribeGroupsResponse:
        response = pb.DescribeGroupsResponse()
        for name in request.groups:
            group = self.group(name)
            assignments = group.assignments or {}
            members = [
                pb.MemberDescription(
                    member=pb.Member(member_id=m.member_id, instance_id=m.instance_id),
                    assignment=assignments.get(m.member_id, b""),
                )
                for m in group.members.values()
            ]
            response.groups.add(group=name, protocol_type="consumer", generation=group.generation, members=members)
        return response

    def check(self, request: pb.CommitOffsetsRequest) -> None:
        """Raise unless the sender may commit now. In a transaction it may, even if nothing is assigned yet."""
        group = self.group(request.group)
        self._check(group, request.member, request.generation)
        if group.assignments is None and not group.gathers and not request.HasField("transaction"):
            raise OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, "the partitions are not assigned yet")

    def judge(self, request: pb.CommitOffsetsRequest) -> pb.CommitOffsetsResponse:
        """Whether each offset is of the topic that has its name now, as far as the client says."""
        response = pb.CommitOffsetsResponse()
        for offset in request.offsets:
            outcome = response.partitions.add(topic=offset.topic, partition=offset.partition)
            if offset.topic_id and self._topic_ids.get(offset.topic, offset.topic_id) != offset.topic_id:
                outcome.error.code = ErrorCode.UNKNOWN_TOPIC_ID
                outcome.error.message = f"{offset.topic} is another topic now"
        return response

    def enter(self, request: pb.CommitOffsetsRequest) -> pb.CommitOffsetsResponse:
        """Commit the offsets that can be committed."""
        response, offsets = self.judge(request), self.group(request.group).offsets
        for offset, outcome in zip(request.offsets, response.partitions, strict=True):
            partition = TopicPartition(offset.topic, offset.partition)
            if not outcome.error.code and not (request.only_first and partition in offsets):
                offsets[partition] = offset
        return response

    def _commit(self, request: pb.CommitOffsetsRequest) -> pb.CommitOffsetsResponse:
        self.check(request)
        return self.enter(request)

    def _fetch(self, request: pb.FetchOffsetsRequest) -> pb.FetchOffsetsResponse:
        group = self.group(request.group)
        partitions = [
            TopicPartition(partition_offset.topic, partition_offset.partition)
            for partition_offset in request.partitions
        ]
        response = pb.FetchOffsetsResponse()
        for partition in sorted(group.offsets) if request.all else partitions:
            if request.require_stable and self.is_undecided(request.group, partition):
                unstable = Error(code=ErrorCode.UNSTABLE_OFFSET_COMMIT, message="a transaction is open")
                response.offsets.add(topic=partition.topic, partition=partition.partition, offset=-1, error=unstable)
                continue
            committed = group.offsets.get(partition)
            epoch = None if committed is None or not committed.HasField("leader_epoch") else committed.leader_epoch
            response.offsets.add(
                topic=partition.topic,
                partition=partition.partition,
                offset=-1 if committed is None else committed.offset,
                leader_epoch=epoch,
                metadata="" if committed is None else committed.metadata,
                topic_id=b"" if committed is None else committed.topic_id,
            )
        return response

    def _check(self, group: ScriptedGroup, who: pb.Member, generation: int | None = None) -> None:
        if who.member_id not in group.members:
            fenced = any(
                who.HasField("instance_id") and m.instance_id == who.instance_id for m in group.members.values()
            )
            code = ErrorCode.FENCED_INSTANCE_ID if fenced else ErrorCode.UNKNOWN_MEMBER_ID
            raise OttlaError(code, f"{who.member_id!r} is not a member")
        if generation is not None and generation != group.generation:
            raise OttlaError(ErrorCode.ILLEGAL_GENERATION, f"the current generation is {group.generation}")
