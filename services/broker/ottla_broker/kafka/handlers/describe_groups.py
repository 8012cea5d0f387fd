"""DescribeGroups (key 15), versions 0 to 6: groups as their coordinators describe them.

v3 adds authorized operations (KIP-430); v4 group instance ids (KIP-345); v6 an error message (KIP-1043), and an error
for a group that does not exist, which is `Dead` before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened
from ottla_broker.kafka.forwarding.group_calls import call, instance_id_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.kafka.wire.metadata import NOT_REQUESTED
from ottla_broker.peers.coordinator_peers import not_available
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once, sliced
from ottla_core.kafka.messages import DescribeGroupsRequest, DescribeGroupsResponse
from ottla_core.routing import GROUP
from ottla_core.rpc.parts import MOST_GROUPS
from ottla_core.rpc.status import error_message, raise_error
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Group: TypeAlias = DescribeGroupsResponse.DescribedGroup
_Member: TypeAlias = DescribeGroupsResponse.DescribedGroupMember

_NOT_FOUND_FROM: Final = 6
_AT_ONCE: Final = 16
"""The most shards that are asked at once."""


async def handle(backend: Backend, request: DescribeGroupsRequest, context: KafkaContext) -> DescribeGroupsResponse:
    requested = list(dict.fromkeys(request.groups))  # each once, however often it is named
    access = context.access
    denied = await access.denied(Operation.DESCRIBE, ResourceType.GROUP, requested)
    allowed = [group for group in requested if group not in denied]
    described = [pb.GroupDescription(group=group, error=error_message(error)) for group, error in denied.items()]
    for of_shard in await few_at_once(partial(_describe, backend), await _by_shard(backend, allowed), at_once=_AT_ONCE):
        described += of_shard

    def operations(group: str) -> int:
        is_shown = request.include_authorized_operations and group not in denied
        return access.operations(ResourceType.GROUP, group) if is_shown else NOT_REQUESTED

    def reported(entry: pb.GroupDescription) -> _Group:
        return _reported(entry, context.version, operations(entry.group))

    return DescribeGroupsResponse(groups=await sliced(reported, described))


async def _by_shard(backend: Backend, groups: list[str]) -> list[list[str]]:
    by_shard: dict[int | None, list[str]] = {}
    shards = await sliced(partial(backend.image.shard_of, GROUP), groups)
    for shard, group in zip(shards, groups, strict=True):
        by_shard.setdefault(shard, []).append(group)
    return list(by_shard.values())


async def _describe(backend: Backend, groups: Sequence[str]) -> list[pb.GroupDescription]:
    """Describe groups of one shard. A coordinator describes only some of the groups in each call."""
    described: list[pb.GroupDescription] = []
    while left := groups[len(described) :]:
        request = pb.DescribeGroupsRequest(groups=left[:MOST_GROUPS])
        try:
            response = await call(backend, left[0], Group.DESCRIBE_GROUPS, request)
            raise_error(response.error)
            if not response.groups:
                raise not_available(GROUP)
            described += response.groups
        except OttlaError as error:
            described += [pb.GroupDescription(group=group, error=error_message(error)) for group in request.groups]
    return described


def _reported(group: pb.GroupDescription, version: int, operations: int) -> _Group:
    code, state, text = group.error.code, group.state, shortened(group.error.message) or None
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        state = "Dead"
        if version < _NOT_FOUND_FROM:
            code = 0
    return _Group(
        error_code=code,
        group_id=group.group,
        group_state=state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[_member(member) for member in group.members],
        error_message=text if version >= _NOT_FOUND_FROM else None,
        authorized_operations=operations,
        generation=group.generation,
        leader=group.leader,
        shard=group.shard,
        coordinator=group.coordinator,
    )


def _member(described: pb.MemberDescription) -> _Member:
    who = described.member
    return _Member(
        member_id=who.member_id,
        group_instance_id=instance_id_of(who),
        client_id=described.client_id,
        client_host=described.client_host,
        member_metadata=described.metadata,
        member_assignment=described.assignment,
        session_timeout_ms=described.session_timeout_ms,
        rebalance_timeout_ms=described.rebalance_timeout_ms,
    )


API: Final = control(
    DescribeGroupsRequest,
    (0, 6),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.GROUP)),
    errors=error_codes.Errors(
        "schema (v6); KIP-1043: older versions describe the group as dead",
        error_codes.GROUP,
        {ErrorCode.GROUP_ID_NOT_FOUND: error_codes.Since(6, ErrorCode.NONE)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.DESCRIBE_GROUPS,
)
