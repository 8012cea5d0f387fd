"""ElectLeaders: back to preferred leaders, or a leader at the price of records where there is none (KIP-460)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.admin import ElectLeadersResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.forwarding import forward, limit_s, refused, said
from ottla_broker.kafka.frames import Request
from ottla_core.errors import OttlaError
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_Topic: Final = ElectLeadersResponse.ReplicaElectionResult
_Partition: Final = _Topic.PartitionResult

_Told = tuple[str, int, dict[str, Any]]
"""Topic, partition, and the fields of its error."""


async def answer(backend: Backend, asked: Message, request: Request) -> Message:
    """Version 0 knows preferred leaders only, and no error of the request as a whole."""
    version, code = request.version, 0
    named = [(topic.topic, number) for topic in asked.topic_partitions or () for number in topic.partitions]
    wanted = pb.ElectLeadersRequest(
        type=asked.election_type,
        partitions=[pb.PartitionOfTopic(topic=topic, partition=number) for topic, number in named],
        all_partitions=asked.topic_partitions is None,
    )
    told: list[_Told]
    try:
        reply = await forward(backend, Controller.ELECT_LEADERS, wanted, limit_s=limit_s(asked.timeout_ms))
        told = [(each.topic, each.partition, said(each.error)) for each in reply.partitions]
    except OttlaError as error:
        code = int(error.code)
        told = [(topic, number, refused(error)) for topic, number in dict.fromkeys(named)]
    return ElectLeadersResponse(version=version, error_code=code, replica_election_results=_by_topic(told, version))


def _by_topic(told: Iterable[_Told], version: int) -> list[Message]:
    partitions: dict[str, list[Message]] = defaultdict(list)
    for topic, number, error in told:
        partitions[topic].append(_Partition(version=version, partition_id=number, **error))
    return [_Topic(version=version, topic=topic, partition_result=found) for topic, found in partitions.items()]
