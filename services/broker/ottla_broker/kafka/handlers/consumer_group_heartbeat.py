"""ConsumerGroupHeartbeat (key 68), versions 0 to 1: the one request by which a member of the consumer protocol joins,
reports changes, gets its assignment, and leaves (KIP-848).

In version 0 the coordinator chooses the member's id. Version 1 requires one from the client (KIP-1082), and adds
subscriptions by regular expression. Requests that are invalid in any group are refused here, before a coordinator gets
them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields, reported_fields
from ottla_broker.kafka.forwarding.group_calls import call, host_of, member
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import COORDINATOR_MOVES, ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla_core.rpc.bounds import check_few
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Assigned: TypeAlias = ConsumerGroupHeartbeatResponse.TopicPartitions

_ID_FROM: Final = 1
_REGEX_FROM: Final = 1
_JOINS: Final = 0
_LEAVES: Final = -1
_LEAVES_FOR_NOW: Final = -2
_UNCHANGED_MS: Final = -1
_MOST_TOPICS: Final = 10_000
"""The most topics of one request, because the coordinator handles all of them in one turn of its loop."""
_REPEATS: Final = COORDINATOR_MOVES - {ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""A request that may have been carried out is not repeated. If it gave the member a new epoch, that would fence it."""
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
"""Kafka treats a text of only these characters as empty."""


async def handle(
    backend: Backend, request: ConsumerGroupHeartbeatRequest, context: KafkaContext
) -> ConsumerGroupHeartbeatResponse:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    try:
        context.access.check(Operation.READ, ResourceType.GROUP, request.group_id)
        if names:
            for error in (await context.access.denied(Operation.DESCRIBE, ResourceType.TOPIC, names)).values():
                raise error
        _check(request, context.version)
        forwarded = _forwarded(request, context)
        if owned:
            add = forwarded.owned.topics.add
            await sliced(lambda topic: add(topic_id=topic.topic_id, partitions=topic.partitions), owned)
        response = await call(backend, request.group_id, Group.CONSUMER_HEARTBEAT, forwarded, repeats=_REPEATS)
    except OttlaError as error:
        return ConsumerGroupHeartbeatResponse(**error_fields(error))
    if response.error.code:
        return ConsumerGroupHeartbeatResponse(**reported_fields(response.error))
    return ConsumerGroupHeartbeatResponse(
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=await _assignment(response) if response.HasField("assignment") else None,
    )


def _check(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raise INVALID_REQUEST for a request that is invalid in any group."""
    epoch = request.member_epoch
    if version >= _ID_FROM or epoch > _JOINS or epoch == _LEAVES:
        _check_text("member id", request.member_id)
    for topics in (request.subscribed_topic_names, request.topic_partitions):
        if topics is not None:
            check_few(len(topics), "topics", _MOST_TOPICS)
    _check_text("group id", request.group_id)
    _check_text("instance id", request.instance_id)
    _check_text("rack id", request.rack_id)
    if epoch == _JOINS:
        _check_join(request)
    elif epoch == _LEAVES_FOR_NOW and request.instance_id is None:
        raise _invalid(f"the member epoch {epoch} is for static members", "give an instance id, or leave with epoch -1")
    elif epoch < _LEAVES_FOR_NOW:
        raise _invalid(f"the member epoch {epoch} is not valid", "give 0 to join, or -1 or -2 to leave")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED_MS:
        raise _invalid("a member joins without a rebalance timeout", "give one with member epoch 0")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a member that joins owns no partitions yet", "give an empty list of partitions with epoch 0")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "a member joins without a subscription", "give topic names or a regular expression, empty or not"
        )


def _check_text(what: str, text: str | None) -> None:
    if text is not None and not text.strip(_BLANK):
        raise _invalid(f"the {what} is empty", f"give the {what}, or none at all if the member has none")


def _invalid(message: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_REQUEST, message, hint=hint)


def _forwarded(request: ConsumerGroupHeartbeatRequest, context: KafkaContext) -> pb.ConsumerHeartbeatRequest:
    """Return the request for the coordinator. The caller adds the owned partitions."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return pb.ConsumerHeartbeatRequest(
        group=request.group_id,
        member=member(request.member_id, request.instance_id),
        member_epoch=request.member_epoch,
        rack=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else pb.SubscribedTopics(names=names),
        topic_regex=regex,
        assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else pb.AssignedPartitions(),
        client_id=context.client_id,
        client_host=host_of(context),
        gives_no_id=context.version < _ID_FROM,
        reader=_reader(context) if regex else None,
    )


def _reader(context: KafkaContext) -> pb.ReaderOfTopics | None:
    """Return the client, whose rights bound the matches of a regular expression, or None if it sees all topics."""
    caller, access = context.caller, context.access
    if not access.is_bounded:
        return None
    return pb.ReaderOfTopics(principal=caller.principal, host=caller.client_host, sees_unlisted=access.sees_unlisted)


async def _assignment(response: pb.ConsumerHeartbeatResponse) -> ConsumerGroupHeartbeatResponse.Assignment:
    topics = await sliced(_assigned, response.assignment.topics)
    return ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=topics)


def _assigned(topic: pb.AssignedTopic) -> _Assigned:
    return _Assigned(topic_id=topic.topic_id, partitions=list(topic.partitions))


API: Final = control(
    ConsumerGroupHeartbeatRequest,
    (0, 1),
    handle,
    needs=needs((Operation.READ, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema; GroupCoordinatorService, consumerGroupHeartbeat; KIP-848, KIP-1082",
        error_codes.COORDINATOR
        | {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        },
        {ErrorCode.INVALID_REGULAR_EXPRESSION: error_codes.Since(_REGEX_FROM, ErrorCode.INVALID_REQUEST)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.CONSUMER_HEARTBEAT,
)
