"""A raw Kafka client in the world. It sends what its caller wants sent, and keeps no metadata of brokers."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final, NamedTuple

from ottla.client.kafka.apis import CREATE_TOPICS, DELETE_RECORDS, FETCH, METADATA, PRODUCE, Api
from ottla.client.kafka.frames import FrameReader, request_frame, response_in
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
)
from ottla_core.records.batch import Buffer, iter_headers
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

KAFKA_PORT: Final = 9092


class Answer(NamedTuple):
    """An error code of a partition, and the offset that came with it."""

    code: int
    offset: int


class Fetched(NamedTuple):
    code: int
    high_watermark: int
    log_start_offset: int
    records: Buffer


class Connection(asyncio.Protocol):
    """Requests to one broker, which may be answered in any order."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._waiting: Final[dict[int, asyncio.Future[bytes]]] = {}
        self._ids: Final = itertools.count(1)
        self._reader: Final = FrameReader(lambda length, correlation_id: None)
        self.is_over = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            waiting = self._waiting.pop(int.from_bytes(frame[4:8]), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the broker has closed the connection"))
        self._waiting.clear()

    async def ask(self, api: Api, version: int, request: Message, timeout_s: float) -> Any:
        """Return the response. Raises OSError, of which TimeoutError is one."""
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._transport.writelines(request_frame(api, version, number, "world", request))
        try:
            async with asyncio.timeout(timeout_s):
                return response_in(api, version, await waiting)
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        self._transport.close()


class RawClient:
    def __init__(self) -> None:
        self._connections: Final[dict[str, Connection]] = {}

    async def ask(self, host: str, api: Api, version: int, request: Message, timeout_s: float = 5.0) -> Any:
        connection = self._connections.get(host)
        if connection is None or connection.is_over:
            _, connection = await asyncio.get_running_loop().create_connection(Connection, host, KAFKA_PORT)
            self._connections[host] = connection
        try:
            return await connection.ask(api, version, request, timeout_s)
        except TimeoutError:
            connection.close()
            raise

    async def create_topic(self, host: str, name: str, replicas: int, configs: dict[str, str]) -> int:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=1,
                    replication_factor=replicas,
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=5000,
        )
        response = await self.ask(host, CREATE_TOPICS, 7, request)
        return int(response.topics[0].error_code)

    async def leader(self, host: str, topic: str) -> tuple[int, bytes]:
        """Return the leader, -1 for none, and the topic's id."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        response = await self.ask(host, METADATA, 12, request, 2.0)
        found = response.topics[0]
        return (found.partitions[0].leader_id if found.partitions else -1), found.topic_id

    async def produce(self, host: str, topic: str, records: bytes, acks: int, timeout_s: float) -> Answer:
        request = ProduceRequest(
            acks=acks,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)]
                )
            ],
        )
        response = await self.ask(host, PRODUCE, 9, request, timeout_s + 1.0)
        partition = response.responses[0].partition_responses[0]
        return Answer(partition.error_code, partition.base_offset)

    async def fetch(self, host: str, topic: str, topic_id: bytes, offset: int) -> Fetched:
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                FetchRequest.FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
                    ],
                )
            ],
        )
        response = await self.ask(host, FETCH, 13, request)
        partition = response.responses[0].partitions[0]
        return Fetched(
            partition.error_code, partition.high_watermark, partition.log_start_offset, partition.records or b""
        )

    async def delete_records(self, host: str, topic: str, offset: int) -> Answer:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)],
                )
            ],
            timeout_ms=3000,
        )
        response = await self.ask(host, DELETE_RECORDS, 2, request)
        partition = response.topics[0].partitions[0]
        return Answer(partition.error_code, partition.low_watermark)


def batch_of(key: bytes, value: bytes, timestamp_ms: int) -> bytes:
    builder = new_builder(1 << 20)
    assert builder.append(timestamp_ms, key, value)
    return builder.seal()


def records_of(data: Buffer) -> list[tuple[int, bytes, bytes | None]]:
    """Return the records of batches as (offset, key, value)."""
    return [
        (offset, bytes(key or b""), None if value is None else bytes(value))
        for at, header in iter_headers(data)
        for offset, _, key, value, *_ in read_records(memoryview(data)[at : at + header.size_bytes])
    ]
