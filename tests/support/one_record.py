"""Each client writes one record to a topic and reads all that is there. It takes the settings of its connection."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka
import kafka
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from waiting import LIMIT_S

import ottla


def by_ottla(topic: str, bootstrap: str, **credentials: Any) -> list[bytes]:
    with ottla.Producer(bootstrap, topic=topic, value="bytes", **credentials) as producer:
        producer.send(b"v").result(LIMIT_S)
    settings: dict[str, Any] = {"start": "earliest", "stop": "end", "value": "bytes", **credentials}
    with ottla.Consumer(topic, bootstrap=bootstrap, **settings) as consumer:
        return [record.value for record in consumer]


def by_confluent(topic: str, settings: dict[str, Any]) -> list[bytes | None]:
    producer = ConfluentProducer(settings)
    producer.produce(topic, b"v")
    assert producer.flush(LIMIT_S) == 0
    consumer = ConfluentConsumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None
        return [message.value()]
    finally:
        consumer.close()


def by_kafka_python(topic: str, settings: dict[str, Any]) -> list[bytes]:
    producer = kafka.KafkaProducer(**settings)
    producer.send(topic, b"v").get(LIMIT_S)
    producer.close()
    limit: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": int(LIMIT_S * 1000)}
    consumer = kafka.KafkaConsumer(topic, group_id=topic, **limit, **settings)
    try:
        return [next(consumer).value]
    finally:
        consumer.close()


def by_aiokafka(topic: str, settings: dict[str, Any]) -> list[bytes]:
    async def use() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"v")
        consumer = aiokafka.AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with consumer, asyncio.timeout(LIMIT_S):
            return [(await consumer.getone()).value]

    return asyncio.run(use())
