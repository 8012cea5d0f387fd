"""CreatePartitions (key 37), versions 0 to 3: a topic grows to a count, with assignments or without (KIP-195).

Versions differ in encoding only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.admin import CreatePartitionsResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.forwarding import forward, limit_s, named_twice, refused, said, translated, until_known
from ottla_broker.kafka.frames import KafkaContext
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.slices import sliced
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_Result: Final = CreatePartitionsResponse.CreatePartitionsTopicResult


async def answer(backend: Backend, asked: Message, request: KafkaContext) -> Message:
    version = request.version
    results = {name: refused(error) for name, error in named_twice(t.name for t in asked.topics).items()}
    wanted = [topic for topic in asked.topics if topic.name not in results]
    try:
        results |= await _grown(backend, wanted, asked)
    except OttlaError as error:
        results |= {topic.name: refused(error) for topic in wanted}
    told = await sliced(lambda each: _Result(version=version, name=each[0], **each[1]), results.items())
    return CreatePartitionsResponse(version=version, results=told)


async def _grown(backend: Backend, topics: Sequence[Message], asked: Message) -> dict[str, dict[str, Any]]:
    """The error of each topic, or none."""
    request = pb.CreatePartitionsRequest(
        topics=await translated(backend, _increase, topics), validate_only=asked.validate_only
    )
    response = await forward(backend, Controller.CREATE_PARTITIONS, request, limit_s=limit_s(asked.timeout_ms))
    if not asked.validate_only:
        done = {topic.name for topic in response.topics if not topic.error.code}
        counts = {topic.name: topic.count for topic in topics if topic.name in done}
        await until_known(backend, lambda image: all(_count(image, name) >= n for name, n in counts.items()))
    return {topic.name: said(topic.error) for topic in response.topics}


def _increase(topic: Message) -> pb.PartitionIncrease:
    assignments = [pb.ReplicaList(replicas=each.broker_ids) for each in topic.assignments or ()]
    return pb.PartitionIncrease(name=topic.name, total_count=topic.count, assignments=assignments)


def _count(image: ClusterImage, name: str) -> int:
    topic = image.topics.get(name)
    return 0 if topic is None else topic.partition_count
