"""A client for tests that send what no client of the SDK would."""

from __future__ import annotations

import time
from collections.abc import Iterable
from queue import Queue
from typing import Any, NamedTuple, Self, TypeVar

from waiting import LIMIT_S, wait_until

from ottla.admin import topics
from ottla.client.kafka.apis import FETCH, LIST_OFFSETS, PRODUCE
from ottla.client.kafka.exchange import Exchange, Outcome
from ottla.client.kafka.peer import KafkaStream
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.metadata import metadata
from ottla.machines.metadata import ClusterView
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import (
    CreateTopicsRequest,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from ottla_core.model import TopicId
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder

T = TypeVar("T")


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, codec: Codec = Codec.NONE, **sealed: Any) -> bytes:
    """One record batch, a record a millisecond."""
    builder = new_builder(max_bytes=1 << 30)
    for n, value in enumerate(values):
        assert builder.append(timestamp_ms + n, None, value)
    return builder.seal(codec, **sealed)


class Fetched(NamedTuple):
    """The data of one partition in a response to a fetch."""

    records: bytes
    error_code: int
    high_watermark: int
    log_start_offset: int


class Wire:
    """One broker, called without the caution of the SDK's clients.

    Requests on streams are answered in the responses, or reported in `broken` if the stream ends.
    """

    def __init__(self, address: str) -> None:
        self.peer = KafkaTransport("wire")(address)
        self.broken: Queue[tuple[OttlaError, list[int]]] = Queue()
        self._names = TopicNames()
        self._responses: dict[str, Queue[Outcome[Any]]] = {PRODUCE.name: Queue(), FETCH.name: Queue()}
        self._streams: dict[str, KafkaStream] = {}

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

    def metadata(self, *topics: str) -> ClusterView:
        return self.peer.exchange(metadata(topics, self._names), timeout=LIMIT_S)

    def end_offset(self, topic_id: bytes, partition: int = 0) -> int | None:
        found = self.list_offset(topic_id, -1, partition)
        return None if found.error_code else found.offset

    def list_offset(
        self, topic_id: bytes, timestamp_ms: int, partition: int = 0
    ) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
        """Return the response for one partition. The request has an empty name if the topic is unknown."""
        view = self.peer.exchange(metadata((), self._names, all_topics=True), timeout=LIMIT_S)
        wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
        name = view.names.get(TopicId(topic_id), "")
        topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        asked = Exchange(LIST_OFFSETS, lambda _: request, lambda response: response)
        return self.peer.exchange(asked, timeout=LIMIT_S).topics[0].partitions[0]

    def send_produce(self, topic_id: bytes, records: bytes, *, partition: int = 0, acks: int = 1) -> int:
        part = ProduceRequest.PartitionProduceData(index=partition, records=records)
        topic = ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[part])
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
        asked = Exchange(PRODUCE, lambda _: request, lambda response: response.responses[0].partition_responses[0])
        return self._stream(PRODUCE.name).send(asked, timeout_ms=10_000, answered=acks != 0)

    def produce(self, topic_id: bytes, records: bytes, **wanted: Any) -> ProduceResponse.PartitionProduceResponse:
        self.send_produce(topic_id, records, **wanted)
        return self.produce_response()

    def produce_response(self) -> ProduceResponse.PartitionProduceResponse:
        response: ProduceResponse.PartitionProduceResponse = self._response(PRODUCE.name)
        return response

    def send_fetch(
        self,
        topic_id: bytes,
        partitions: Iterable[int] = (0,),
        *,
        offset: int = 0,
        epoch: int = -1,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
    ) -> int:
        wanted = [
            FetchRequest.FetchPartition(
                partition=number, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=max_bytes
            )
            for number in partitions
        ]
        topic = FetchRequest.FetchTopic(topic_id=topic_id, partitions=wanted)
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[topic])
        asked = Exchange(FETCH, lambda _: request, lambda response: response.responses[0].partitions)
        return self._stream(FETCH.name).send(asked, timeout_ms=30_000)

    def fetch(self, topic_id: bytes, offset: int, partition: int = 0, **wanted: Any) -> Fetched:
        self.send_fetch(topic_id, [partition], offset=offset, **wanted)
        return self.fetch_response()[0]

    def fetch_response(self) -> list[Fetched]:
        """Return the partitions in the next response."""
        partitions: list[FetchResponse.PartitionData] = self._response(FETCH.name)
        return [
            Fetched(bytes(each.records or b""), each.error_code, each.high_watermark, each.log_start_offset)
            for each in partitions
        ]

    def has_fetch_response(self) -> bool:
        return not self._responses[FETCH.name].empty()

    def _response(self, name: str) -> Any:
        outcome = self._responses[name].get(timeout=LIMIT_S)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def _stream(self, name: str) -> KafkaStream:
        if name not in self._streams:
            responses = self._responses[name]
            self._streams[name] = self.peer.open_stream(
                name, lambda _, outcome: responses.put(outcome), lambda error, left: self.broken.put((error, left))
            )
        return self._streams[name]
