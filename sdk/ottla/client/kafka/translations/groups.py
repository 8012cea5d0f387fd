"""What the translations of groups share."""

from __future__ import annotations

from ottla_proto import group_pb2 as pb


def instance_id_of(member: pb.Member) -> str | None:
    """Return the group.instance.id of a static member, None for a dynamic one."""
    return member.instance_id if member.HasField("instance_id") else None
