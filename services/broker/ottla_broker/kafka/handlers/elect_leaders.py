"""ElectLeaders (key 43), versions 0 to 2: back to preferred leaders (KIP-183).

v1 adds the election type: where a partition has no leader, one at the price of records (KIP-460).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.admin import ElectLeadersResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.forwarding import forward, limit_s, refused, said
from ottla_broker.kafka.frames import KafkaContext
from ottla_core.errors import OttlaError
from ottla_core.slices import sliced
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_Topic: Final = ElectLeadersResponse.ReplicaElectionResult
_Partition: Final = _Topic.PartitionResult

_Told = tuple[str, int, dict[str, Any]]
"""Topic, partition, and the fields of its error."""


async def answer(backend: Backend, asked: Message, request: KafkaContext) -> Message:
    """Version 0 knows preferred leaders only, and no error of the request as a whole."""
    version, code = request.version, 0
    named = dict.fromkeys((each.topic, number) for each in asked.topic_partitions or () for number in each.partitions)
    wanted = pb.ElectLeadersRequest(
        type=asked.election_type,
        partitions=await sliced(lambda each: pb.PartitionOfTopic(topic=each[0], partition=each[1]), named),
        all_partitions=asked.topic_partitions is None,
    )
    told: list[_Told]
    try:
        response = await forward(backend, Controller.ELECT_LEADERS, wanted, limit_s=limit_s(asked.timeout_ms))
        told = await sliced(lambda each: (each.topic, each.partition, said(each.error)), response.partitions)
    except OttlaError as error:
        code = int(error.code)
        fields = refused(error)
        told = [(topic, number, fields) for topic, number in named]
    results = await _by_topic(told, version)
    return ElectLeadersResponse(version=version, error_code=code, replica_election_results=results)


async def _by_topic(told: Iterable[_Told], version: int) -> list[Message]:
    partitions: dict[str, list[Message]] = defaultdict(list)

    def add(each: _Told) -> None:
        topic, number, error = each
        partitions[topic].append(_Partition(version=version, partition_id=number, **error))

    await sliced(add, told)
    return [_Topic(version=version, topic=topic, partition_result=found) for topic, found in partitions.items()]
