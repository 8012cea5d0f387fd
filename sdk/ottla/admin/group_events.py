"""The exchange that asks a group-coordinator of ottla what has happened to a group."""

from __future__ import annotations

from ottla.admin.group_info import GroupEvent
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import private_call
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group


def explanation(group: str) -> Exchange[tuple[GroupEvent, ...]]:
    """Return the exchange that asks for the latest events of a group, oldest first."""

    def read(response: pb.ExplainGroupResponse) -> tuple[GroupEvent, ...]:
        return tuple(map(_event, response.events))

    return private_call(Group.EXPLAIN_GROUP, pb.ExplainGroupRequest(group=group), read)


def _event(wire: pb.GroupEvent) -> GroupEvent:
    return GroupEvent(
        wire.at_ms,
        wire.kind,
        wire.cause,
        wire.generation,
        wire.member.member_id,
        wire.member.instance_id if wire.member.HasField("instance_id") else None,
        wire.client_id,
        wire.client_host,
        wire.duration_ms / 1000,
        wire.partitions_moved,
    )
