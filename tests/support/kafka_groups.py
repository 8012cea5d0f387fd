"""A member of a group, of each of the Kafka clients that people have: it reads on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

LIMIT_S = 30.0


class Member(Protocol):
    revoked: list[int]
    """Partitions that it was told to give up."""

    def assignment(self) -> list[int]: ...
    def values(self) -> list[bytes]:
        """What it has read, in this order."""
        ...

    def commit(self) -> None:
        """Where it is, and wait."""
        ...

    def committed(self, partitions: int) -> dict[int, int]: ...
    def close(self) -> None: ...


class _Threaded:
    """`_step` polls once; everything that touches the client runs on its thread."""

    def __init__(self, topic: str) -> None:
        self.revoked: list[int] = []
        self._topic = topic
        self._values: list[bytes] = []
        self._assigned: list[int] = []
        self._wanted: list[tuple[Any, threading.Event, list[Any]]] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def assignment(self) -> list[int]:
        return list(self._assigned)

    def values(self) -> list[bytes]:
        return list(self._values)

    def close(self) -> None:
        self._closing.set()
        self._thread.join(LIMIT_S)
        self._assigned = []

    def _do(self, work: Any) -> Any:
        done, result = threading.Event(), []
        self._wanted.append((work, done, result))
        assert done.wait(LIMIT_S), "the member's thread did not answer"
        if isinstance(result[0], Exception):
            raise result[0]
        return result[0]

    def _serve(self) -> None:
        while self._wanted:
            work, done, result = self._wanted.pop(0)
            try:
                result.append(work())
            except Exception as error:
                result.append(error)
            done.set()

    def _run(self) -> None:
        raise NotImplementedError


class Confluent(_Threaded):
    def __init__(
        self, bootstrap: str, topic: str, group: str, *, assignor: str = "range", instance: str | None = None
    ) -> None:
        super().__init__(topic)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": 2_000,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self._cooperative = assignor.startswith("cooperative")
        self._consumer = confluent_kafka.Consumer(settings)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic], on_revoke=self._on_revoke)
        while not self._closing.is_set():
            for message in self._consumer.consume(100, 0.1):
                if message.error() is None:
                    self._values.append(message.value())
            self._assigned = [p.partition for p in self._consumer.assignment()]
            self._serve()
        self._consumer.close()

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        if not self._closing.is_set():
            self.revoked += [p.partition for p in partitions]

    def commit(self) -> None:
        self._do(lambda: self._consumer.commit(asynchronous=False))

    def committed(self, partitions: int) -> dict[int, int]:
        wanted = [confluent_kafka.TopicPartition(self._topic, p) for p in range(partitions)]
        return {p.partition: max(0, p.offset) for p in self._do(lambda: self._consumer.committed(wanted, LIMIT_S))}


class Python(_Threaded):
    def __init__(self, bootstrap: str, topic: str, group: str, *, instance: str | None = None) -> None:
        super().__init__(topic)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[_range()],
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=2_000,
        )
        self._thread.start()

    def _run(self) -> None:
        member = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.revoked += [p.partition for p in revoked]

            def on_partitions_assigned(self, assigned: Any) -> None:
                """Nothing to do."""

        self._consumer.subscribe([self._topic], listener=Listener())
        while not self._closing.is_set():
            for records in self._consumer.poll(timeout_ms=100).values():
                self._values += [record.value for record in records]
            self._assigned = [p.partition for p in self._consumer.assignment()]
            self._serve()
        self._consumer.close()

    def commit(self) -> None:
        self._do(self._consumer.commit)

    def committed(self, partitions: int) -> dict[int, int]:
        def ask() -> dict[int, int]:
            return {p: self._consumer.committed(kafka.TopicPartition(self._topic, p)) or 0 for p in range(partitions)}

        found: dict[int, int] = self._do(ask)
        return found


class Aio(_Threaded):
    def __init__(self, bootstrap: str, topic: str, group: str, *, instance: str | None = None) -> None:
        super().__init__(topic)
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 500,
            "metadata_max_age_ms": 2_000,
            "partition_assignment_strategy": [_aio_range()],
        }
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        consumer = self._consumer = aiokafka.AIOKafkaConsumer(self._topic, **self._settings)
        await consumer.start()
        try:
            while not self._closing.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    self._values += [record.value for record in records]
                self._assigned = [p.partition for p in consumer.assignment()]
                await self._serve_here()
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(consumer.stop(), LIMIT_S)

    async def _serve_here(self) -> None:
        while self._wanted:
            work, done, result = self._wanted.pop(0)
            try:
                result.append(await work())
            except Exception as error:
                result.append(error)
            done.set()

    def commit(self) -> None:
        self._do(lambda: self._consumer.commit())

    def committed(self, partitions: int) -> dict[int, int]:
        async def ask() -> dict[int, int]:
            return {
                p: await self._consumer.committed(aiokafka.TopicPartition(self._topic, p)) or 0
                for p in range(partitions)
            }

        found: dict[int, int] = self._do(ask)
        return found


def _range() -> Any:
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor


def _aio_range() -> Any:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor
