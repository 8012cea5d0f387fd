"""The Kafka clients that people have, unchanged, behind the few calls that the tests make of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka
import confluent_kafka
import kafka

LIMIT_S = 30.0
_T = TypeVar("_T")


class Rec(NamedTuple):
    """A record as every client tells of it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 1_700_000_000_000


class Client(Protocol):
    name: str

    def produce(
        self, bootstrap: str, topic: str, records: Iterable[Rec], *, acks: int = -1, codec: str = "none", **more: bool
    ) -> list[int]:
        """The offsets in partition 0, -1 where acks=0 tells none. `idempotent=True` for an idempotent producer."""
        ...

    def consume(self, bootstrap: str, topic: str, count: int, *, offset: int = 0) -> list[Rec]:
        """So many records of partition 0 from the offset on."""
        ...

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None: ...


class Confluent:
    name = "confluent-kafka"

    def produce(
        self, bootstrap: str, topic: str, records: Iterable[Rec], *, acks: int = -1, codec: str = "none", **more: bool
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": acks,
                "compression.type": codec,
                "linger.ms": 5,
                "message.max.bytes": 10_000_000,
                "enable.idempotence": more.get("idempotent", False),
            }
        )
        told: list[Any] = []
        for r in records:
            producer.produce(
                topic,
                r.value,
                r.key,
                0,
                on_delivery=lambda error, message: told.append((error, message.offset())),
                timestamp=r.timestamp_ms,
                headers=list(r.headers),
            )
        assert producer.flush(LIMIT_S) == 0
        assert [error for error, _ in told if error is not None] == []
        return [-1 if acks == 0 else offset for _, offset in told]

    def consume(self, bootstrap: str, topic: str, count: int, *, offset: int = 0) -> list[Rec]:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
        got: list[Rec] = []
        give_up_at = time.monotonic() + LIMIT_S
        while len(got) < count and time.monotonic() < give_up_at:
            for m in consumer.consume(count, 0.2):
                assert m.error() is None, m.error()
                got.append(Rec(m.key(), m.value(), tuple(m.headers() or ()), m.timestamp()[1]))
        consumer.close()
        return got

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
        wanted = confluent_kafka.TopicPartition(topic, 0, timestamp_ms)
        (found,) = consumer.offsets_for_times([wanted], timeout=LIMIT_S)
        consumer.close()
        return None if found.offset < 0 else int(found.offset)


class KafkaPython:
    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, records: Iterable[Rec], *, acks: int = -1, codec: str = "none", **more: bool
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all" if acks == -1 else acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=more.get("idempotent", False),
            max_request_size=10_000_000,
            linger_ms=5,
        )
        sent = [
            producer.send(topic, r.value, r.key, list(r.headers), partition=0, timestamp_ms=r.timestamp_ms)
            for r in records
        ]
        producer.flush(LIMIT_S)
        offsets = [s.get(LIMIT_S).offset for s in sent]
        producer.close()
        return [-1 if acks == 0 else offset for offset in offsets]

    def consume(self, bootstrap: str, topic: str, count: int, *, offset: int = 0) -> list[Rec]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), group_id=None, consumer_timeout_ms=int(LIMIT_S * 1000)
        )
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        got = []
        for m in consumer:
            got.append(Rec(m.key, m.value, tuple(m.headers), m.timestamp))
            if len(got) == count:
                break
        consumer.close()
        return got

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=None)
        partition = kafka.TopicPartition(topic, 0)
        found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        consumer.close()
        return None if found is None else int(found.offset)


class Aiokafka:
    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Iterable[Rec], *, acks: int = -1, codec: str = "none", **more: bool
    ) -> list[int]:
        async def produce() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all" if acks == -1 else acks,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=more.get("idempotent", False),
                max_request_size=10_000_000,
                linger_ms=5,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(topic, r.value, r.key, 0, r.timestamp_ms, headers=list(r.headers))
                    for r in records
                ]
                told = await asyncio.gather(*sent)
            finally:
                await producer.stop()
            return [-1 if acks == 0 else t.offset for t in told]

        return _run(produce)

    def consume(self, bootstrap: str, topic: str, count: int, *, offset: int = 0) -> list[Rec]:
        async def consume() -> list[Rec]:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=8_000_000)
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.start()
            try:
                consumer.seek(partition, offset)
                got: list[Rec] = []
                while len(got) < count:
                    m = await consumer.getone()
                    got.append(Rec(m.key, m.value, tuple(m.headers), m.timestamp))
            finally:
                await consumer.stop()
            return got

        return _run(consume)

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        async def find() -> int | None:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.start()
            try:
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            finally:
                await consumer.stop()
            return None if found is None else int(found.offset)

        return _run(find)


def _run(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    return asyncio.run(asyncio.wait_for(work(), LIMIT_S))


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka())
