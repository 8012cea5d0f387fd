"""The consumer groups of scripted brokers: Kafka's classic protocol in memory, for members that are honest.

Written from the protocol (KIP-62, 345, 394, 814) and on purpose not from the coordinator's code. Sessions have no end:
a member is away when it has left, or when a test lets it be forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, Final, TypeAlias

from ottla.fakes.scripted_parts import Commit, committed
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla_core.model import TopicId, TopicPartition

_OfMember: TypeAlias = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | Commit

_NO_ID: Final = bytes(16)
_WAIT_S: Final = 30.0


@dataclass(slots=True)
class ScriptedMember:
    """One member; `joined` is the generation that it waits for, or is in."""

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes]
    reason: str = ""
    joined: int = -1


@dataclass(slots=True)
class ScriptedOffset:
    """A committed offset. Without a leader epoch or a topic id, these are -1 and empty."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = b""


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
    offsets: dict[TopicPartition, ScriptedOffset] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)


class ScriptedGroups:
    """All groups. `changed` is held in every call, and released in the wait for members. `topic_ids` is as of now."""

    served: Final = (
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        DescribeGroupsRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
    )

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

    def respond(self, request: Message) -> Message:
        """Return the coordinator's response to one of the requests that are `served`. Raises Kafka's errors."""
        match request:
            case JoinGroupRequest():
                return self._join(request)
            case SyncGroupRequest():
                return self._sync(request)
            case HeartbeatRequest():
                return self._heartbeat(request)
            case LeaveGroupRequest():
                return self._leave(request)
            case DescribeGroupsRequest():
                return self._describe(request)
            case OffsetCommitRequest():
                self.check(request, is_settled=True)
                return OffsetCommitResponse(topics=self.enter(request, OffsetCommitResponse))
            case OffsetFetchRequest():
                return self._fetch(request)
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"scripted brokers don't support {type(request).__name__}")

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        group = self.group(request.group_id)
        instance_id, member_id = request.group_instance_id, request.member_id
        offers = {protocol.name: protocol.metadata for protocol in request.protocols}
        former = next(
            (m for m in group.members.values() if instance_id is not None and m.instance_id == instance_id), None
        )
        if not member_id and former is not None:
            return self._come_back(group, former, offers)
        if not member_id:
            member_id = f"{instance_id or 'member'}-{next(self._ids)}"
            if instance_id is None:
                group.pending.add(member_id)
                message = "come again with this id"
                return JoinGroupResponse(
                    error_code=ErrorCode.MEMBER_ID_REQUIRED, error_message=message, member_id=member_id
                )
        elif member_id not in group.pending:
            self._check(group, request)
        group.pending.discard(member_id)
        group.members[member_id] = ScriptedMember(member_id, instance_id, offers, request.reason or "")
        self._gather(group)
        return self._joined(group, member_id)

    def _come_back(self, group: ScriptedGroup, former: ScriptedMember, offers: dict[str, bytes]) -> JoinGroupResponse:
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

    def _joined(self, group: ScriptedGroup, member_id: str) -> JoinGroupResponse:
        me = group.members[member_id]
        me.joined = group.generation + 1
        if all(member.joined > group.generation for member in group.members.values()):
            self._complete(group)
        is_complete = self._changed.wait_for(
            lambda: group.generation >= me.joined or group.members.get(member_id) is not me, _WAIT_S
        )
        if not is_complete or group.members.get(member_id) is not me:
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

    def _response(self, group: ScriptedGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
        members = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.protocols[group.protocol]
            )
            for m in group.members.values()
        ]
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type="consumer",
            protocol_name=group.protocol,
            leader=group.leader,
            member_id=member_id,
            members=members if member_id == group.leader else (),
            skip_assignment=skip_assignment,
        )

    def _sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        group = self.group(request.group_id)
        self._check(group, request, request.generation_id)
        if request.member_id == group.leader and group.assignments is None:
            group.assignments = {each.member_id: each.assignment for each in request.assignments}
            self._changed.notify_all()
        self._changed.wait_for(
            lambda: group.assignments is not None or group.gathers or group.generation != request.generation_id, _WAIT_S
        )
        if group.assignments is None or group.generation != request.generation_id:
            raise OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, "another rebalance has begun")
        made = group.assignments.get(request.member_id, b"")
        return SyncGroupResponse(protocol_type="consumer", protocol_name=group.protocol, assignment=made)

    def _heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        group = self.group(request.group_id)
        self._check(group, request, request.generation_id)
        if group.gathers:
            raise OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, "join again")
        return HeartbeatResponse()

    def _leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        group = self.group(request.group_id)
        for leaver in request.members:
            group.left.append((leaver.member_id, leaver.reason or ""))
            group.pending.discard(leaver.member_id)
            if group.members.pop(leaver.member_id, None) is not None and group.members:
                self._gather(group)
                if all(member.joined > group.generation for member in group.members.values()):
                    self._complete(group)
        left = LeaveGroupResponse.MemberResponse
        return LeaveGroupResponse(
            members=[
                left(member_id=each.member_id, group_instance_id=each.group_instance_id) for each in request.members
            ]
        )

    def _describe(self, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[self._described(name) for name in request.groups])

    def _described(self, name: str) -> DescribeGroupsResponse.DescribedGroup:
        group = self.group(name)
        assignments = group.assignments or {}
        return DescribeGroupsResponse.DescribedGroup(
            group_id=name,
            protocol_type="consumer",
            generation=group.generation,
            members=[
                DescribeGroupsResponse.DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    member_assignment=assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ],
        )

    def check(self, request: Commit, *, is_settled: bool) -> None:
        """Raise unless the sender may commit now. In a transaction it may, even before its group is settled."""
        group = self.group(request.group_id)
        if not (request.member_id or group.members):
            return  # a client that assigns partitions to itself
        self._check(group, request, request.generation_id_or_member_epoch)
        if is_settled and group.assignments is None and not group.gathers:
            raise OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, "the partitions are not assigned yet")

    def offsets_of(self, request: Commit) -> Iterator[tuple[TopicPartition | None, ScriptedOffset]]:
        """Yield the offsets of a commit in their order, each with its partition: None if its topic id is unknown."""
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        for topic in request.topics:
            topic_id = b"" if topic.topic_id == _NO_ID else topic.topic_id
            name = names.get(TopicId(topic_id)) if topic_id else topic.name
            for part in topic.partitions:
                offset = ScriptedOffset(
                    part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "", topic_id
                )
                yield None if name is None else TopicPartition(name, part.partition_index), offset

    def judge(self, request: Commit, response: type[Any]) -> list[Any]:
        """Return the topics of the response: whether each offset is of a topic that exists."""
        unknown = (ErrorCode.UNKNOWN_TOPIC_ID, "it is another topic now")
        outcomes = (unknown if partition is None else (ErrorCode.NONE, "") for partition, _ in self.offsets_of(request))
        return committed(request, response, outcomes)

    def enter(self, request: Commit, response: type[Any]) -> list[Any]:
        """Commit the offsets that can be committed. Return the topics of the response."""
        topics = self.judge(request, response)
        offsets = self.group(request.group_id).offsets
        outcomes = [part for topic in topics for part in topic.partitions]
        for (partition, offset), outcome in zip(self.offsets_of(request), outcomes, strict=True):
            if partition is not None and not outcome.error_code:
                offsets[partition] = offset
        return topics

    def _fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if request.groups:
            return OffsetFetchResponse(
                groups=[
                    OffsetFetchResponse.OffsetFetchResponseGroup(
                        group_id=asked.group_id,
                        topics=self._found(
                            asked.group_id,
                            asked.topics,
                            request,
                            OffsetFetchResponse.OffsetFetchResponseTopics,
                            OffsetFetchResponse.OffsetFetchResponsePartitions,
                        ),
                    )
                    for asked in request.groups
                ]
            )
        return OffsetFetchResponse(
            topics=self._found(
                request.group_id,
                request.topics,
                request,
                OffsetFetchResponse.OffsetFetchResponseTopic,
                OffsetFetchResponse.OffsetFetchResponsePartition,
            )
        )

    def _found(
        self, name: str, topics: Any, request: OffsetFetchRequest, of_topic: type[Any], of_partition: type[Any]
    ) -> list[Any]:
        """Return the topics of the response to a request for some topics of a group, or for all (None)."""
        if topics is None:
            by_name: dict[str, list[int]] = {}
            for partition in sorted(self.group(name).offsets):
                by_name.setdefault(partition.topic, []).append(partition.partition)
            asked: list[tuple[dict[str, Any], str, Any]] = [
                ({"name": topic}, topic, numbers) for topic, numbers in by_name.items()
            ]
        else:
            names = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
            asked = []
            for topic in topics:
                topic_id = getattr(topic, "topic_id", _NO_ID)
                by_id = topic_id != _NO_ID
                known = names.get(TopicId(topic_id), "") if by_id else topic.name
                asked.append(
                    ({"topic_id": topic_id} if by_id else {"name": topic.name}, known, topic.partition_indexes)
                )
        return [
            of_topic(
                **named,
                partitions=[
                    self._offset(name, TopicPartition(topic, n), named.get("topic_id", b""), request, of_partition)
                    for n in numbers
                ],
            )
            for named, topic, numbers in asked
        ]

    def _offset(
        self,
        group: str,
        partition: TopicPartition,
        topic_id: bytes,
        request: OffsetFetchRequest,
        of_partition: type[Any],
    ) -> Any:
        """Return the offset of a partition. By id, those of a former topic of the same name are left out."""
        if request.require_stable and self.is_undecided(group, partition):
            code = ErrorCode.UNSTABLE_OFFSET_COMMIT
            return of_partition(partition_index=partition.partition, committed_offset=-1, error_code=code)
        found = self.group(group).offsets.get(partition, ScriptedOffset(-1))
        if topic_id and found.topic_id not in (b"", topic_id):
            found = ScriptedOffset(-1)
        return of_partition(
            partition_index=partition.partition,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            metadata=found.metadata,
        )

    def _check(self, group: ScriptedGroup, request: _OfMember, generation: int | None = None) -> None:
        member_id, instance_id = request.member_id, request.group_instance_id
        if member_id not in group.members:
            is_fenced = instance_id is not None and any(m.instance_id == instance_id for m in group.members.values())
            code = ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
            raise OttlaError(code, f"{member_id!r} is not a member")
        if generation is not None and generation != group.generation:
            raise OttlaError(ErrorCode.ILLEGAL_GENERATION, f"the current generation is {group.generation}")
