"""A broker whose coordinators answer as a test says: Kafka's frames go in, and what comes out is read by kio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from google.protobuf.message import Message
from images import image_of, topic_id, with_topic
from kafka_messages import known_versions
from kio.index import load_response_schema
from kio_messages import read
from tests.fuzz.kafka_wire import framed

from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.handlers import api_versions
from ottla_broker.kafka.wire.frames import Caller, read_head
from ottla_broker.peers.coordinator_peers import not_available
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import Change, ClusterImage, Coordinator, Partition, Topic
from ottla_core.errors import OttlaError
from ottla_core.host_port import HostPort
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message as KafkaMessage
from ottla_core.kafka.messages import RequestHeader
from ottla_core.kafka.schema import schema_of
from ottla_core.model import SHARD_TOPICS, PartitionId
from ottla_core.telemetry import Metrics

CALLER = Caller("10.0.0.2", "10.0.0.1")
SHARDS = 4

Response = Message | OttlaError
R = TypeVar("R", bound=KafkaMessage)
Answer = Callable[[Any, Any], Response]
"""What the coordinator makes of a method and a request."""


class GroupBackend:
    """`asked` is what has reached the coordinators. `owned`: whether anybody owns shards.

    `responses` come one after the other, the last of them for ever; a function among them is asked for its response.
    """

    def __init__(self, *responses: Response | Answer, brokers: int = 3) -> None:
        self.image: ClusterImage = _with_shards(with_topic(image_of(brokers), "t", 3, number=1))
        self.node_id = 0
        self.asked: list[Any] = []
        self.limits_s: list[float] = []
        self.owned = True
        self.registered = [Coordinator("group", n, 100 + n, f"host:{n}") for n in range(2)]
        self.coordinators = self
        self.addresses = SimpleNamespace(
            advertised=lambda broker, caller: HostPort(f"host-{broker.id}", 9092 + broker.id)
        )
        self.threads = DiskThreads()
        self.led: dict[PartitionId, Any] = {}
        self.replicas = SimpleNamespace(table=SimpleNamespace(get=self.led.get))
        self._responses = list(responses)

    def id_of(self, topic: str, partition: int) -> PartitionId | None:
        return Backend.id_of(cast(Backend, self), topic, partition)

    def owner(self, kind: str, key: str) -> Coordinator:
        if not self.owned:
            raise not_available(kind)
        return self.registered[0]

    def all_of(self, kind: str) -> list[Coordinator]:
        return self.registered

    async def ask(self, coordinator: Coordinator, method: Any, asked: Any, timeout: float) -> Any:
        self.asked.append(asked)
        self.limits_s.append(timeout)
        response = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        if callable(response):
            response = response(coordinator, asked)
        if isinstance(response, OttlaError):
            raise response
        return response

    async def answer(self, request: Any, version: int) -> Any:
        """The answer to a request of kafka-python's, through the dispatch table, as kio reads it."""
        key, body = await self._handled(memoryview(framed(request, version, 77, client_id="me")), version)
        return read(load_response_schema(key, version), body)

    async def answer_by_ours(self, request: KafkaMessage, response_type: type[R], version: int) -> R:
        """The same for a version that only our own codec knows."""
        key = schema_of(type(request).__name__).api_key
        header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=77, client_id="me")
        header_version = 2 if version in APIS[key].flexible else 1
        frame = codec.encode(header, header_version) + codec.encode(request, version)
        _, body = await self._handled(memoryview(len(frame).to_bytes(4, "big") + frame), version)
        return codec.decode(response_type, body, version)

    async def _handled(self, frame: memoryview, version: int) -> tuple[int, bytes]:
        """The key of a request, and the body of its response."""
        head = read_head(frame)
        answered = Dispatcher(cast(Backend, self), Metrics()).handle(head, frame, CALLER)
        parts = await answered if asyncio.iscoroutine(answered) else answered
        assert isinstance(parts, list)
        tagged = version in APIS[head.key].flexible and head.key != api_versions.KEY
        return head.key, b"".join(parts)[9 if tagged else 8 :]


def _with_shards(image: ClusterImage) -> ClusterImage:
    """Broker 0 leads their partitions."""
    for number, name in enumerate(SHARD_TOPICS.values(), start=2):
        topic = Topic(name, topic_id(number), SHARDS)
        led = [Change(("partition", PartitionId(topic.id, n)), Partition((0,), 0, isr=(0,))) for n in range(SHARDS)]
        image = image.with_changes([Change(("topic", topic.name), topic), *led], image.revision + 1)
    return image


def versions(key: int, *, since: int = 0, until: int = 99) -> range:
    """Those that are served and that kafka-python knows, from one on or up to one."""
    known = known_versions(APIS[key])
    return range(max(known.start, since), min(known.stop, until + 1))


TOPIC_ID = topic_id(1)
