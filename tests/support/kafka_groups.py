"""A member of a group, of each of the Kafka clients that people have: it reads on a thread of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from peers.client import LIMIT_S, GroupRec

SESSION_MS = 30_000
HEARTBEAT_MS = 500
METADATA_MS = 2_000


Tell = Callable[[dict[str, Any]], None]


def tell_nobody(event: dict[str, Any]) -> None:
    """Who joins in this process looks at the member itself."""


class _Threaded:
    """`_run` polls until it is closed; everything that touches the client runs on its thread.

    `tell` is told of each event as peers/driver.py has it, on that thread.
    """

    def __init__(self, topic: str, tell: Tell) -> None:
        self.revoked: list[int] = []
        self._topic = topic
        self._tell = tell
        self._known: set[int] = set()
        self._records: list[GroupRec] = []
        self._assigned: list[int] = []
        self._wanted: list[tuple[Callable[[], Any], threading.Event, list[Any]]] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def assignment(self) -> list[int]:
        return list(self._assigned)

    def records(self) -> list[GroupRec]:
        return list(self._records)

    def values(self) -> list[bytes]:
        return [record.value for record in self.records()]

    def close(self) -> None:
        self._closing.set()
        self._thread.join(LIMIT_S)
        self._assigned = []

    def _do(self, work: Callable[[], Any]) -> Any:
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

    def _on_revoked(self, partitions: Any) -> None:
        """What it gives up as it leaves is nothing that was taken away."""
        numbers = sorted(p.partition for p in partitions)
        self._known.difference_update(numbers)
        self._tell({"revoked": numbers})
        if not self._closing.is_set():
            self.revoked += numbers

    def _see(self, partitions: Iterable[Any], records: Iterable[GroupRec]) -> None:
        """What it has after a poll, and what it has read by it."""
        numbers = {p.partition for p in partitions}
        if new := numbers - self._known:
            self._tell({"assigned": sorted(new)})
        self._known = numbers
        self._assigned = sorted(numbers)
        for record in records:
            self._records.append(record)
            value = base64.b64encode(record.value).decode()
            self._tell({"record": {"partition": record.partition, "offset": record.offset, "value": value}})

    def _run(self) -> None:
        raise NotImplementedError


class Confluent(_Threaded):
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        assignor: str = "range",
        instance: str | None = None,
        reset: str = "earliest",
        tell: Tell = tell_nobody,
    ) -> None:
        super().__init__(topic, tell)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self._consumer = confluent_kafka.Consumer(settings)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic], on_revoke=lambda _, partitions: self._on_revoked(partitions))
        while not self._closing.is_set():
            got = [m for m in self._consumer.consume(100, 0.1) if m.error() is None]
            records = [GroupRec(m.partition(), m.offset(), m.value()) for m in got]
            self._see(self._consumer.assignment(), records)
            self._serve()
        self._consumer.close()

    def commit(self) -> None:
        self._do(lambda: self._consumer.commit(asynchronous=False))

    def seek(self, partition: int, offset: int) -> None:
        self._do(lambda: self._consumer.seek(confluent_kafka.TopicPartition(self._topic, partition, offset)))

    def committed(self, partitions: int) -> dict[int, int]:
        wanted = [confluent_kafka.TopicPartition(self._topic, p) for p in range(partitions)]
        return {p.partition: max(0, p.offset) for p in self._do(lambda: self._consumer.committed(wanted, LIMIT_S))}


class Python(_Threaded):
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        assignor: str = "range",
        instance: str | None = None,
        reset: str = "earliest",
        tell: Tell = tell_nobody,
    ) -> None:
        super().__init__(topic, tell)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset=reset,
            enable_auto_commit=False,
            partition_assignment_strategy=[PythonRange if assignor == "range" else PythonCooperative],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_MS,
        )
        self._thread.start()

    def _run(self) -> None:
        member = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                member._on_revoked(revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                """Nothing to do."""

        self._consumer.subscribe([self._topic], listener=Listener())
        while not self._closing.is_set():
            got = self._consumer.poll(timeout_ms=100).values()
            records = [GroupRec(r.partition, r.offset, r.value) for some in got for r in some]
            self._see(self._consumer.assignment(), records)
            self._serve()
        self._consumer.close()

    def commit(self) -> None:
        self._do(self._consumer.commit)

    def seek(self, partition: int, offset: int) -> None:
        self._do(lambda: self._consumer.seek(kafka.TopicPartition(self._topic, partition), offset))

    def committed(self, partitions: int) -> dict[int, int]:
        def ask() -> dict[int, int]:
            return {p: self._consumer.committed(kafka.TopicPartition(self._topic, p)) or 0 for p in range(partitions)}

        found: dict[int, int] = self._do(ask)
        return found


class Aio(_Threaded):
    """It knows no cooperative rebalances."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        assignor: str = "range",
        instance: str | None = None,
        reset: str = "earliest",
        tell: Tell = tell_nobody,
    ) -> None:
        assert assignor == "range", "aiokafka has no other that the rest have too"
        super().__init__(topic, tell)
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": reset,
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "metadata_max_age_ms": METADATA_MS,
            "partition_assignment_strategy": [AioRange],
        }
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                member._on_revoked(revoked)

            async def on_partitions_assigned(self, assigned: Any) -> None:
                """Nothing to do."""

        consumer = self._consumer = aiokafka.AIOKafkaConsumer(**self._settings)
        consumer.subscribe([self._topic], listener=Listener())
        await consumer.start()
        try:
            while not self._closing.is_set():
                got = (await consumer.getmany(timeout_ms=100)).values()
                records = [GroupRec(r.partition, r.offset, r.value) for some in got for r in some]
                self._see(consumer.assignment(), records)
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

    def seek(self, partition: int, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(aiokafka.TopicPartition(self._topic, partition), offset)

        self._do(seek)

    def committed(self, partitions: int) -> dict[int, int]:
        async def ask() -> dict[int, int]:
            return {
                p: await self._consumer.committed(aiokafka.TopicPartition(self._topic, p)) or 0
                for p in range(partitions)
            }

        found: dict[int, int] = self._do(ask)
        return found
