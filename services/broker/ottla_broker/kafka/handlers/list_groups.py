"""ListGroups (key 16), versions 0 to 5: every group whose coordinator a client reaches through this broker.

A Kafka client sends it to every broker, and expects each to list its own groups alone. So each lists those whose shards
it leads: a group is in one response, and a client of all brokers sees all groups. v4 adds states (KIP-518), v5 types
(KIP-848).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.coordinator_calls import list_all
from ottla_broker.kafka.handlers.find_coordinator import spoken_for
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import ListGroupsRequest, ListGroupsResponse
from ottla_core.routing import GROUP
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Group: TypeAlias = ListGroupsResponse.ListedGroup


async def handle(backend: Backend, request: ListGroupsRequest, context: KafkaContext) -> ListGroupsResponse:
    shards = spoken_for(backend, GROUP)
    forwarded = pb.ListGroupsRequest(states=request.states_filter, types=request.types_filter, shards=shards)
    code, responses = await list_all(backend, GROUP, Group.LIST_GROUPS, forwarded)
    access = context.access
    hidden: Collection[str] = ()
    if not access.allows(Operation.DESCRIBE):
        names = (group.group for response in responses for group in response.groups)
        hidden = await access.hidden(Operation.DESCRIBE, ResourceType.GROUP, names)
    return ListGroupsResponse(
        error_code=code,
        groups=[
            _Group(
                group_id=group.group,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
                members=group.members,
                shard=group.shard,
                coordinator=group.coordinator,
            )
            for response in responses
            for group in response.groups
            if group.group not in hidden
        ],
        shards=shards.numbers,
        shard_count=shards.total,
    )


API: Final = control(
    ListGroupsRequest,
    (0, 5),
    handle,
    # Either right is enough.
    needs=needs((Operation.DESCRIBE, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.GROUP)),
    errors=error_codes.Errors(
        "ListGroupsResponse: a moving shard is reported as loading, so that clients retry",
        error_codes.COORDINATOR - {ErrorCode.NOT_COORDINATOR},
        instead={
            **error_codes.COORDINATORS_LOG,
            ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        },
    ),
    forwards=Group.LIST_GROUPS,
)
