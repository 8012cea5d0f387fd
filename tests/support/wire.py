"""A client for tests that send what no client of the SDK would."""

from __future__ import annotations

import time
from collections.abc import Iterable
from queue import Queue
from typing import Any, Self, TypeVar

from waiting import LIMIT_S, wait_until

from ottla.admin import topics
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.peer import KafkaStream
from ottla.client.kafka.transport import KafkaTransport
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import CreateTopicsRequest
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder
from ottla_proto import broker_pb2 as pb
from ottla_proto import client_pb2
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Broker

T = TypeVar("T")


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, codec: Codec = Codec.NONE, **sealed: Any) -> bytes:
    """One record batch, a record a millisecond."""
    builder = new_builder(max_bytes=1 << 30)
    for n, value in enumerate(values):
        assert builder.append(timestamp_ms + n, None, value)
    return builder.seal(codec, **sealed)


class Wire:
    """One broker, called without the caution of the SDK's clients.

    Requests on streams are answered in the responses, or reported in `broken` if the stream ends.
    """

    def __init__(self, address: str) -> None:
        self.peer = KafkaTransport("wire")(address)
        self.broken: Queue[tuple[OttlaError, list[int]]] = Queue()
        self._responses: dict[str, Queue[tuple[int, Any]]] = {"Produce": Queue(), "Fetch": Queue()}
        self._streams: dict[str, KafkaStream[Any, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._streams.values():
            stream.close()
        self.peer.close()

    def create_topic(self, name: str, partitions: int = 1, *, await_leaders: bool = True, **configs: str) -> bytes:
        """The topic's id, once this broker serves all its partitions (as the only broker of its cluster)."""
        config = CreateTopicsRequest.CreatableTopicConfig
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[config(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        created = self.administer(topics.creation(topic, dry_run=False))
        assert not created.error_code, created
        if await_leaders:
            wait_until(lambda: all(self.end_offset(created.topic_id, n) is not None for n in range(partitions)))
        return created.topic_id

    def administer(self, asked: Exchange[T]) -> T:
        """Return the controller's response to a request that the broker forwards, repeated while none is elected."""
        give_up_at = time.monotonic() + LIMIT_S
        while True:
            try:
                return self.peer.exchange(asked, timeout=LIMIT_S)
            except OttlaError as error:
                if not error.retriable or time.monotonic() > give_up_at:
                    raise
                time.sleep(0.02)

    def metadata(self, *topics: str) -> client_pb2.MetadataResponse:
        return self.peer.call(Client.METADATA, client_pb2.MetadataRequest(topics=topics), timeout=LIMIT_S)

    def end_offset(self, topic_id: bytes, partition: int = 0) -> int | None:
        found = self.list_offset(topic_id, -1, partition)
        return None if found.error.code else found.offset

    def list_offset(self, topic_id: bytes, timestamp_ms: int, partition: int = 0) -> pb.PartitionOffset:
        # ListOffsets names topics, and the peer learns names from metadata.
        self.peer.call(Client.METADATA, client_pb2.MetadataRequest(all_topics=True), timeout=LIMIT_S)
        wanted = pb.ListOffsetsPartition(topic_id=topic_id, partition=partition, timestamp_ms=timestamp_ms)
        request = pb.ListOffsetsRequest(partitions=[wanted])
        return self.peer.call(Broker.LIST_OFFSETS, request, timeout=LIMIT_S).partitions[0]

    def send_produce(self, topic_id: bytes, records: bytes, *, partition: int = 0, acks: int = 1) -> int:
        part = client_pb2.PartitionRecords(topic_id=topic_id, partition=partition, records=records)
        body = client_pb2.ProduceRequest(acks=acks, partitions=[part])
        return self._stream(Client.PRODUCE).send(body, timeout_ms=10_000, answered=acks != 0)

    def produce(self, topic_id: bytes, records: bytes, **wanted: Any) -> client_pb2.PartitionAppended:
        self.send_produce(topic_id, records, **wanted)
        return self.produce_response().partitions[0]

    def produce_response(self) -> client_pb2.ProduceResponse:
        response: client_pb2.ProduceResponse = self._responses["Produce"].get(timeout=LIMIT_S)[1]
        return response

    def send_fetch(self, partitions: Iterable[pb.FetchPartition], **wanted: Any) -> int:
        body = pb.FetchRequest(partitions=partitions, **{"max_bytes": 1 << 20, "min_bytes": 1, **wanted})
        for part in body.partitions:
            part.max_bytes = part.max_bytes or body.max_bytes
        return self._stream(Broker.FETCH).send(body, timeout_ms=30_000)

    def fetch(self, topic_id: bytes, offset: int, partition: int = 0, **wanted: Any) -> pb.PartitionFetched:
        epoch = wanted.pop("epoch", None)
        part = pb.FetchPartition(
            topic_id=topic_id, partition=partition, fetch_offset=offset, current_leader_epoch=epoch
        )
        self.send_fetch([part], **wanted)
        return self.fetch_response().partitions[0]

    def fetch_response(self) -> pb.FetchResponse:
        response: pb.FetchResponse = self._responses["Fetch"].get(timeout=LIMIT_S)[1]
        return response

    def has_fetch_response(self) -> bool:
        return not self._responses["Fetch"].empty()

    def _stream(self, method: Any) -> KafkaStream[Any, Any]:
        if method.name not in self._streams:
            responses = self._responses[method.name]
            self._streams[method.name] = self.peer.open_stream(
                method, lambda i, r: responses.put((i, r)), lambda e, left: self.broken.put((e, left))
            )
        return self._streams[method.name]
