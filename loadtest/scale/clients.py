"""What the runs do to a cluster, through librdkafka: the same for ottla and for Apache Kafka."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from loadtest.kafka.sides import Side

LIMIT_S: Final = 600.0
REPLICAS: Final = 3
_WARM_UP: Final = 200
_POLL_S: Final = 0.05
_VALUE: Final = bytes(100)
_EAGER: Final = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}
"""A broker that comes back is noticed at once: the seconds that are measured are the server's."""


class Clients:
    """One producer and one admin client of a side, for as long as it runs."""

    def __init__(self, side: Side) -> None:
        self.side: Final = side
        settings: dict[str, Any] = {"bootstrap.servers": side.bootstrap, **_EAGER}
        self._admin: Final = AdminClient(settings)
        self._producer: Final = Producer(
            {**settings, "acks": "all", "linger.ms": 0, "topic.metadata.refresh.fast.interval.ms": 20}
        )

    def create(self, topic: str, partitions: int) -> float:
        """Seconds until every partition has its full ISR and has acknowledged a record."""
        began = time.monotonic()
        self.side.create_topic(topic, partitions, REPLICAS, LIMIT_S)
        self.until(lambda: self.in_sync(topic) == partitions * REPLICAS)
        self.accept(topic, range(partitions))
        return time.monotonic() - began

    def in_sync(self, topic: str) -> int:
        """Members of all ISRs of the topic's partitions."""
        return sum(len(partition.isrs) for partition in self._partitions(topic).values())

    def led_by(self, topic: str, broker_id: int) -> list[int]:
        return [number for number, partition in self._partitions(topic).items() if partition.leader == broker_id]

    def accept(self, topic: str, partitions: Iterable[int]) -> None:
        """Return once each of these partitions has acknowledged a record."""
        failed: list[str] = []

        def on_delivery(error: object, message: object) -> None:
            if error is not None:
                failed.append(str(error))

        for partition in partitions:
            self._producer.produce(topic, _VALUE, partition=partition, on_delivery=on_delivery)
            self._producer.poll(0)
        left = self._producer.flush(LIMIT_S)
        if left or failed:
            raise TimeoutError(f"{left} records of {self.side.name} were not acknowledged; failed: {failed[:1]}")

    def one_at_a_time(self, topic: str, partitions: int, records: int) -> tuple[float, float]:
        """Milliseconds at the median from `produce` to the acknowledgement, and CPU ms a record of all processes."""
        for n in range(_WARM_UP):
            self.accept(topic, (n % partitions,))
        taken_ms: list[float] = []
        cpu_s = self.side.cpu_s()
        for n in range(records):
            began = time.perf_counter()
            self.accept(topic, (n % partitions,))
            taken_ms.append(1000 * (time.perf_counter() - began))
        return statistics.median(taken_ms), 1000 * (self.side.cpu_s() - cpu_s) / records

    def metadata_ms(self, topic: str | None) -> float:
        """Of one topic, or of all: the median of eleven requests."""
        taken: list[float] = []
        for _ in range(11):
            began = time.perf_counter()
            self._admin.list_topics(topic, timeout=LIMIT_S)
            taken.append(1000 * (time.perf_counter() - began))
        return statistics.median(taken)

    def idle_core_pct(self, seconds: float) -> float:
        """Of one core, a broker."""
        cpu_s, began = self.side.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return 100 * (self.side.cpu_s() - cpu_s) / (time.monotonic() - began) / REPLICAS

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

    def _partitions(self, topic: str) -> dict[int, Any]:
        return dict(self._admin.list_topics(topic, timeout=10.0).topics[topic].partitions)
