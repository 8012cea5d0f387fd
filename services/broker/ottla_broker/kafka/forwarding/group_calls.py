"""Forwards requests for a group to the coordinator that owns it, in the form of its contract.

A call ends with its connection: the task that waits for it is cancelled, and the call with it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.coordinator_calls import CALL_S, call_owner
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import COORDINATOR_MOVES
from ottla_core.model import TopicId, TopicPartition
from ottla_core.routing import GROUP
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Method

RequestT = TypeVar("RequestT", bound=Message)
Response = TypeVar("Response", bound=Message)

GROUPS_AT_ONCE: Final = 16
"""How many groups of one request are looked up at once."""

IDS_FROM: Final = 10
"""OffsetCommit and OffsetFetch name topics by their ids from this version on."""

JOIN_S: Final = 1_800.0
"""The time limit for calls that wait for members. These have their own limits, and this one is above all of them."""


async def call(
    backend: Backend,
    group: str,
    method: Method[RequestT, Response],
    request: RequestT,
    *,
    limit_s: float = CALL_S,
    repeats: Set[int] = COORDINATOR_MOVES,
) -> Response:
    """Return the response of the group's coordinator, as `call_owner` does."""
    return await call_owner(backend, GROUP, group, method, request, limit_s, repeats=repeats)


def member(member_id: str, instance_id: str | None) -> pb.Member:
    return pb.Member(member_id=member_id, instance_id=instance_id)


def instance_id_of(who: pb.Member) -> str | None:
    """Return the group.instance.id of a member that the coordinator describes."""
    return who.instance_id if who.HasField("instance_id") else None


def name_of(backend: Backend, name: str, topic_id: bytes, version: int) -> str | None:
    """Return the name of a topic that OffsetCommit or OffsetFetch names by its name or id, or None for an unknown
    id."""
    if version < IDS_FROM:
        return name
    return name_by_id(backend, topic_id)


def name_by_id(backend: Backend, topic_id: bytes) -> str | None:
    known = backend.image.topic_by_id(TopicId(topic_id))
    return None if known is None else known.name


def existing_partitions(backend: Backend, name: str) -> range:
    """Return the numbers of a topic's partitions, or none for a topic that does not exist."""
    topic = backend.image.topics.get(name)
    return range(0 if topic is None else topic.partition_count)


def group_partition(partition: TopicPartition) -> pb.GroupPartition:
    return pb.GroupPartition(topic=partition.topic, partition=partition.partition)


def host_of(context: KafkaContext) -> str:
    """Return the client's host as Kafka writes it, which is Java's way to print an address."""
    return f"/{context.caller.client_host}"
