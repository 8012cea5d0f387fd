"""A program that writes one transaction after the other with librdkafka, and prints a line of JSON for each step.

It is a process of its own, because librdkafka 2.16.1 can end its process: if another producer fences it in
`send_offsets_to_transaction`, two threads free the text of the error (seen in one of about 25 runs of
`test_transaction_kills`).
"""

from __future__ import annotations

import json
import random
import sys
import threading
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

PARTITIONS: Final = tuple((topic, number) for topic in ("a", "b") for number in range(2))
OFFSETS: Final = TopicPartition("a", 0)
TIMEOUT_MS: Final = 2_000


class Client:
    """One producer after the other under a transactional id, and their group. `first` is its first transaction's
    number, and `limit_s` bounds each of its calls."""

    def __init__(self, bootstrap: str, transactional_id: str, group: str, first: int, limit_s: float) -> None:
        self._bootstrap: Final = bootstrap
        self._transactional_id: Final = transactional_id
        self._consumer: Final = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        self._number = first
        self._limit_s: Final = limit_s
        self._random: Final = random.Random(first)

    def run(self, stopping: threading.Event) -> None:
        producer: confluent_kafka.Producer | None = None
        while not stopping.is_set():
            try:
                producer = self._write(producer or self._producer())
            except KafkaException as raised:
                # Another producer has fenced it, or its transaction took too long.
                tell(error=str(raised))
                producer = None
        self._consumer.close()

    def _producer(self) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "message.timeout.ms": TIMEOUT_MS,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        producer.init_transactions(self._limit_s)
        return producer

    def _write(self, producer: confluent_kafka.Producer) -> confluent_kafka.Producer | None:
        """Write one transaction. Return the producer of the next one, or None if this one leaves its transaction
        open."""
        number, partitions = self._number, self._random.sample(PARTITIONS, 3)
        self._number += 1
        tell(number=number, partitions=partitions)
        producer.begin_transaction()
        for topic, partition in partitions:
            producer.produce(topic, b"%d" % number, partition=partition)
        offsets = [TopicPartition(OFFSETS.topic, OFFSETS.partition, number)]
        producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), self._limit_s)
        chance = self._random.random()
        if chance < 0.05:
            return None
        if chance < 0.3:
            producer.flush(self._limit_s)
            producer.abort_transaction(self._limit_s)
            return producer
        tell(number=number, committed=None)
        try:
            producer.commit_transaction(self._limit_s)
        except KafkaException as raised:
            if not raised.args[0].txn_requires_abort():
                raise
            tell(number=number, committed=False)
            producer.abort_transaction(self._limit_s)
            return producer
        tell(number=number, committed=True)
        return producer


def tell(**step: Any) -> None:
    print(json.dumps(step), flush=True)


def main(bootstrap: str, transactional_id: str, group: str, first: str, limit_s: str) -> None:
    stopping = threading.Event()

    def stop_at_the_end_of_the_input() -> None:
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=stop_at_the_end_of_the_input, daemon=True).start()
    Client(bootstrap, transactional_id, group, int(first), float(limit_s)).run(stopping)


if __name__ == "__main__":
    main(*sys.argv[1:])
