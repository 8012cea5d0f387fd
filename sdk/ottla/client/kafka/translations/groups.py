"""What the translations of groups share."""

from __future__ import annotations

from typing import Final

from ottla_proto import group_pb2 as pb

UNKNOWN: Final = -1
"""The number for a shard, a coordinator, or a generation that Kafka does not report."""


def instance_id_of(member: pb.Member) -> str | None:
    """Return the group.instance.id of a static member, None for a dynamic one."""
    return member.instance_id if member.HasField("instance_id") else None
