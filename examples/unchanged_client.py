"""A program for Apache Kafka, unchanged: confluent-kafka's producer, consumer group and admin client.

    ottla up
    python examples/unchanged_client.py                      # brokers at localhost:9092, as for Kafka
    python examples/unchanged_client.py broker.example:9092

Nothing in it knows of ottla.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 10_000


def main(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic("events", num_partitions=3)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(RECORDS):
        producer.produce("events", key=str(number % 100), value=f"event {number}")
        producer.poll(0)
    producer.flush()

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    seen: set[bytes] = set()
    while len(seen) < RECORDS:
        for message in consumer.consume(1_000, timeout=1.0):
            if message.error() is None and (value := message.value()) is not None:
                seen.add(value)
    consumer.close()
    print(len(seen), "events")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
