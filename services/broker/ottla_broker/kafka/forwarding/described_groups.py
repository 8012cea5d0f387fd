"""Describes groups of any type, as DescribeGroups and ConsumerGroupDescribe both do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.group_calls import call
from ottla_broker.peers.coordinator_peers import not_available
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once, sliced
from ottla_core.routing import GROUP
from ottla_core.rpc.parts import MOST_GROUPS
from ottla_core.rpc.status import error_message, raise_error
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_AT_ONCE: Final = 16
"""The most shards that are asked at once."""


async def described_groups(backend: Backend, access: Access, groups: Sequence[str]) -> list[pb.GroupDescription]:
    """Return a description or an error of each group, once, however often it is named. Those that the client may not
    describe come first."""
    requested = list(dict.fromkeys(groups))
    denied = await access.denied(Operation.DESCRIBE, ResourceType.GROUP, requested)
    allowed = [group for group in requested if group not in denied]
    described = [pb.GroupDescription(group=group, error=error_message(error)) for group, error in denied.items()]
    for of_shard in await few_at_once(partial(_describe, backend), await _by_shard(backend, allowed), at_once=_AT_ONCE):
        described += of_shard
    return described


def of_other_type(group: pb.GroupDescription, wanted: str) -> OttlaError | None:
    """Return why a group can't be described as one of the type that the request is for, or None if it can.

    Coordinators of older releases know classic groups alone, and name no type.
    """
    if group.error.code or (group.type or CLASSIC) == wanted:
        return None
    api = {CLASSIC: "DescribeGroups", CONSUMER: "ConsumerGroupDescribe"}[group.type or CLASSIC]
    return OttlaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"{group.group[:80]!r} is not a {wanted} group",
        hint=f"{api} describes it",
    )


async def _by_shard(backend: Backend, groups: list[str]) -> list[list[str]]:
    by_shard: dict[int | None, list[str]] = {}
    shards = await sliced(partial(backend.image.shard_of, GROUP), groups)
    for shard, group in zip(shards, groups, strict=True):
        by_shard.setdefault(shard, []).append(group)
    return list(by_shard.values())


async def _describe(backend: Backend, groups: Sequence[str]) -> list[pb.GroupDescription]:
    """Describe groups of one shard. A coordinator describes only some of the groups in each call, and of the last one
    only some members. The parts of a group are of several moments, so a member that comes or goes may be missing."""
    described: list[pb.GroupDescription] = []
    begun: pb.GroupDescription | None = None
    while left := groups[len(described) :]:
        after = begun.members[-1].member.member_id if begun is not None else ""
        request = pb.DescribeGroupsRequest(groups=left[:MOST_GROUPS], after_member=after)
        try:
            response = await call(backend, left[0], Group.DESCRIBE_GROUPS, request)
            raise_error(response.error)
            if not response.groups:
                raise not_available(GROUP)
            found = list(response.groups)
            # A group of another type than before is a classic group now, which is described as a whole, or an error.
            if begun is not None and found[0].type == begun.type:
                begun.members.extend(found[0].members)
                begun.has_more = found[0].has_more
                found[0] = begun
            begun = found.pop() if found[-1].has_more else None
            described += found
        except OttlaError as error:
            described += [pb.GroupDescription(group=group, error=error_message(error)) for group in request.groups]
            begun = None
    return described
