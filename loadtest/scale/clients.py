"""What the runs do to a cluster, through librdkafka: the same for ottla and for Apache Kafka."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from loadtest.kafka.sides import Side

LIMIT_S: Final = 600.0
REPLICAS: Final = 3
_POLL_S: Final = 0.05
_VALUE: Final = bytes(100)
_SEGMENT_MS: Final = 1000
"""A record a second later begins the partition's second segment."""
_EAGER: Final = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}
"""A broker that comes back is noticed at once: the seconds that are measured are the server's."""


class Clients:
    """One admin client of a side, and one producer, for as long as it runs.

    What is written to many partitions is written by producers of their own: librdkafka goes through all partitions that
    it knows at each record.
    """

    def __init__(self, side: Side) -> None:
        self.side: Final = side
        self.topics: Final[dict[str, int]] = {}
        """Those that make the cluster large, with their partitions."""
        self._settings: Final[dict[str, Any]] = {"bootstrap.servers": side.bootstrap, **_EAGER}
        self.admin: Final = AdminClient(self._settings)
        self._producer: Final = self._new_producer()

    def create(self, topic: str, partitions: int) -> float:
        """Seconds until every partition has its full ISR and has acknowledged a record."""
        began = time.monotonic()
        config = {"min.insync.replicas": "2", "segment.ms": str(_SEGMENT_MS)}
        new = NewTopic(topic, partitions, REPLICAS, config=config)
        self.admin.create_topics([new], operation_timeout=LIMIT_S, request_timeout=LIMIT_S)[topic].result(LIMIT_S)
        self.until(lambda: self._in_sync(topic) == partitions * REPLICAS)
        self.accept_all((topic, n) for n in range(partitions))
        return time.monotonic() - began

    def enlarge(self, partitions: int) -> float:
        """One more topic; each of its partitions gets a second segment, and is read once. Seconds as `create`."""
        topic = f"many-{len(self.topics)}"
        taken_s = self.create(topic, partitions)
        self.topics[topic] = partitions
        time.sleep(2 * _SEGMENT_MS / 1000)
        self.accept_all((topic, n) for n in range(partitions))
        self._read(topic, partitions)
        return taken_s

    def is_whole(self) -> bool:
        """Whether every ISR is full."""
        return all(self._in_sync(topic) == count * REPLICAS for topic, count in self.topics.items())

    def led_by(self, broker_id: int) -> list[tuple[str, int]]:
        return [(t, n) for t in self.topics for n, p in self.partitions_of(t).items() if p.leader == broker_id]

    def balance(self) -> None:
        """Every partition is led by its preferred leader."""
        self.admin.elect_leaders(ElectionType.PREFERRED, None).result(LIMIT_S)
        share = sum(self.topics.values()) / REPLICAS
        self.until(lambda: all(len(self.led_by(n)) > 0.9 * share for n in range(REPLICAS)))

    def accept_all(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return once each of these partitions has acknowledged a record."""
        self._accept(self._new_producer(), partitions)

    def _new_producer(self) -> Producer:
        return Producer({**self._settings, "acks": "all", "linger.ms": 0})

    def _accept(self, producer: Producer, partitions: Iterable[tuple[str, int]]) -> None:
        failed: list[str] = []

        def on_delivery(error: object, message: object) -> None:
            if error is not None:
                failed.append(str(error))

        for topic, partition in partitions:
            producer.produce(topic, _VALUE, partition=partition, on_delivery=on_delivery)
            producer.poll(0)
        left = producer.flush(LIMIT_S)
        if left or failed:
            raise TimeoutError(f"{left} records of {self.side.name} were not acknowledged; failed: {failed[:1]}")

    def warm_up(self, topic: str, partitions: int, records: int) -> None:
        self._accept(self._producer, ((topic, n % partitions) for n in range(records)))

    def one_at_a_time(
        self, topic: str, partitions: int, records: int, until_read: Callable[[], None] = lambda: None
    ) -> tuple[float, float]:
        """Milliseconds at the median from `produce` to the acknowledgement, and to what comes after it; CPU ms a record
        of all processes."""
        taken_ms: list[float] = []
        cpu_s = self.side.cpu_s()
        for n in range(records):
            began = time.perf_counter()
            self._accept(self._producer, [(topic, n % partitions)])
            until_read()
            taken_ms.append(1000 * (time.perf_counter() - began))
        return statistics.median(taken_ms), 1000 * (self.side.cpu_s() - cpu_s) / records

    def metadata_ms(self, topic: str | None) -> float:
        """Return the median of eleven metadata requests for one topic, or for all topics."""
        taken: list[float] = []
        for _ in range(11):
            began = time.perf_counter()
            self.admin.list_topics(topic, timeout=LIMIT_S)
            taken.append(1000 * (time.perf_counter() - began))
        return statistics.median(taken)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Raises TimeoutError."""
        give_up_at = time.monotonic() + LIMIT_S
        while not self._is(is_so):
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{self.side.name} is not there after {LIMIT_S:g} s")
            time.sleep(_POLL_S)

    def _is(self, is_so: Callable[[], bool]) -> bool:
        try:
            return is_so()
        except KafkaException:  # a broker is away
            return False

    def _in_sync(self, topic: str) -> int:
        """Members of all ISRs of the topic's partitions."""
        return sum(len(partition.isrs) for partition in self.partitions_of(topic).values())

    def _read(self, topic: str, partitions: int) -> None:
        """Two records of each partition, once."""
        consumer = Consumer({**self._settings, "group.id": "scale", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
            left, give_up_at = 2 * partitions, time.monotonic() + LIMIT_S
            while left > 0:
                left -= sum(message.error() is None for message in consumer.consume(10_000, timeout=1.0))
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"{left} records of {topic} were not read from {self.side.name}")
        finally:
            consumer.close()

    def partitions_of(self, topic: str) -> dict[int, Any]:
        return dict(self.admin.list_topics(topic, timeout=10.0).topics[topic].partitions)
