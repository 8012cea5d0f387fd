"""A member of a group, of each of the Kafka clients that people have: it reads on a thread of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from peers import security
from peers.client import LIMIT_S, CommitError, GroupProtocol, GroupRec
from peers.driver import SESSION_MS

HEARTBEAT_MS = 500
METADATA_MS = 2_000


Tell = Callable[[dict[str, Any]], None]


def tell_nobody(event: dict[str, Any]) -> None:
    """Who joins in this process looks at the member itself."""


class Joining(NamedTuple):
    """What a member needs to join, besides the topic."""

    bootstrap: str
    group: str
    assignor: str
    instance: str | None
    reset: str
    protocol: GroupProtocol
    session_ms: int


class _Member(ABC):
    """It polls until it is closed; everything that touches the client runs on its thread, but for its making.

    `tell` is told of each event as peers/driver.py has it, on that thread. `reset` is where a group without offsets
    begins, and with `instance` it is a static member. `refusals` are the client's errors for a commit that the
    coordinator refuses.
    """

    refusals: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        assignor: str = "range",
        instance: str | None = None,
        reset: str = "earliest",
        protocol: GroupProtocol = "classic",
        session_ms: int = SESSION_MS,
        tell: Tell = tell_nobody,
    ) -> None:
        self.revoked: list[int] = []
        self.lost: list[int] = []
        self._topic = topic
        self._tell = tell
        self._known: set[int] = set()
        self._records: list[GroupRec] = []
        self._assigned: list[int] = []
        self._wanted: list[tuple[Callable[[], Any], threading.Event, list[Any]]] = []
        self._closing = threading.Event()
        joining = Joining(bootstrap, group, assignor, instance, reset, protocol, session_ms)
        self._consumer = self._make(joining)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def assignment(self) -> list[int]:
        return list(self._assigned)

    def records(self) -> list[GroupRec]:
        return list(self._records)

    def values(self) -> list[bytes]:
        return [record.value for record in self.records()]

    def commit(self) -> None:
        try:
            self._do(self._commit)
        except self.refusals as error:
            raise CommitError(str(error)) from error

    def seek(self, partition: int, offset: int) -> None:
        self._do(lambda: self._seek(partition, offset))

    def committed(self, partitions: int) -> dict[int, int]:
        found: dict[int, int] = self._do(lambda: self._committed(range(partitions)))
        return found

    def close(self) -> None:
        self._closing.set()
        self._thread.join(LIMIT_S)
        self._assigned = []

    # ---- what each client does in its own way -----------------------------------------------------------------------

    @abstractmethod
    def _make(self, joining: Joining) -> Any: ...

    @abstractmethod
    def _subscribe(self) -> None: ...

    @abstractmethod
    def _poll(self) -> list[GroupRec]: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _seek(self, partition: int, offset: int) -> None: ...

    @abstractmethod
    def _committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """0 where nothing is."""

    def _assigned_now(self) -> Iterable[Any]:
        """Partitions, as the client says it after a poll."""
        assigned: Iterable[Any] = self._consumer.assignment()
        return assigned

    def _end(self) -> None:
        self._consumer.close()

    # ---- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._subscribe()
        while not self._closing.is_set():
            records = self._poll()
            self._see(self._assigned_now(), records)
            self._serve()
        self._end()

    def _do(self, work: Callable[[], Any]) -> Any:
        result: list[Any] = []
        done = threading.Event()
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

    def _on_lost(self, partitions: Any) -> None:
        numbers = sorted(p.partition for p in partitions)
        self._known.difference_update(numbers)
        self._tell({"lost": numbers})
        self.lost += numbers

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


class Confluent(_Member):
    refusals = (confluent_kafka.KafkaException,)

    def _make(self, joining: Joining) -> Any:
        settings: dict[str, Any] = {
            "bootstrap.servers": joining.bootstrap,
            **security.librdkafka(),
            "group.id": joining.group,
            "auto.offset.reset": joining.reset,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
        }
        if joining.protocol == "consumer":
            settings |= {"group.protocol": "consumer", "group.remote.assignor": joining.assignor}
        else:
            settings |= {
                "partition.assignment.strategy": joining.assignor,
                "session.timeout.ms": joining.session_ms,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        if joining.instance is not None:
            settings["group.instance.id"] = joining.instance
        return confluent_kafka.Consumer(settings)

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._topic],
            on_revoke=lambda _, partitions: self._on_revoked(partitions),
            on_lost=lambda _, partitions: self._on_lost(partitions),
        )

    def _poll(self) -> list[GroupRec]:
        got = [m for m in self._consumer.consume(100, 0.1) if m.error() is None]
        return [GroupRec(m.partition(), m.offset(), m.value()) for m in got]

    def _commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def _seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(confluent_kafka.TopicPartition(self._topic, partition, offset))

    def _committed(self, partitions: Iterable[int]) -> dict[int, int]:
        wanted = [confluent_kafka.TopicPartition(self._topic, p) for p in partitions]
        return {p.partition: max(0, p.offset) for p in self._consumer.committed(wanted, LIMIT_S)}


class _WithListener(_Member):
    """A client that is written in Python. It says that it still has what it has given up until it has joined again."""

    _joins_again = False

    def _assigned_now(self) -> Iterable[Any]:
        return () if self._joins_again else super()._assigned_now()

    def _on_revoked(self, partitions: Any) -> None:
        super()._on_revoked(partitions)
        self._joins_again = self._is_eager

    def _on_assigned(self) -> None:
        self._joins_again = False

    @property
    @abstractmethod
    def _is_eager(self) -> bool:
        """Whether it gives up all that it has before it joins again."""


class Python(_WithListener):
    refusals = (kafka.errors.KafkaError,)

    def _make(self, joining: Joining) -> Any:
        self._eager = joining.assignor == "range"
        strategy = PythonRange if self._eager else PythonCooperative
        return kafka.KafkaConsumer(**_named_in_python(joining, strategy), **security.kafka_python())

    def _subscribe(self) -> None:
        member = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                member._on_revoked(revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                member._on_assigned()

            def on_partitions_lost(self, lost: Any) -> None:
                member._on_lost(lost)

        self._consumer.subscribe([self._topic], listener=Listener())

    @property
    def _is_eager(self) -> bool:
        return self._eager

    def _poll(self) -> list[GroupRec]:
        # One that ends between the answers to JoinGroup and SyncGroup leaves kafka-python 3.0.12 without an assignment
        # for ever: the next one finds that it has joined, and never looks at what it was given.
        return _records(self._consumer.poll(timeout_ms=100 if self._consumer.assignment() else 5_000))

    def _commit(self) -> None:
        self._consumer.commit()

    def _seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(kafka.TopicPartition(self._topic, partition), offset)

    def _committed(self, partitions: Iterable[int]) -> dict[int, int]:
        return {p: self._consumer.committed(kafka.TopicPartition(self._topic, p)) or 0 for p in partitions}


class Aio(_WithListener):
    """It knows no cooperative rebalances. Its event loop runs whenever something is waited for: mostly a poll."""

    refusals = (aiokafka.errors.KafkaError,)

    def _make(self, joining: Joining) -> Any:
        assert joining.assignor == "range", "aiokafka has no other that the rest have too"
        self._loop = asyncio.new_event_loop()
        settings = _named_in_python(joining, AioRange)

        async def make() -> aiokafka.AIOKafkaConsumer:
            return aiokafka.AIOKafkaConsumer(**settings, **security.aiokafka())

        return self._wait(make())

    def _wait(self, work: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(work)

    def _subscribe(self) -> None:
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                member._on_revoked(revoked)

            async def on_partitions_assigned(self, assigned: Any) -> None:
                member._on_assigned()

        self._consumer.subscribe([self._topic], listener=Listener())
        self._wait(self._consumer.start())

    @property
    def _is_eager(self) -> bool:
        return True

    def _poll(self) -> list[GroupRec]:
        return _records(self._wait(self._consumer.getmany(timeout_ms=100)))

    def _commit(self) -> None:
        self._wait(self._consumer.commit())

    def _seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(aiokafka.TopicPartition(self._topic, partition), offset)

    def _committed(self, partitions: Iterable[int]) -> dict[int, int]:
        wanted = {p: aiokafka.TopicPartition(self._topic, p) for p in partitions}
        return {p: self._wait(self._consumer.committed(partition)) or 0 for p, partition in wanted.items()}

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            self._wait(asyncio.wait_for(self._consumer.stop(), LIMIT_S))
        self._loop.close()


def _named_in_python(joining: Joining, strategy: Any) -> dict[str, Any]:
    """The settings as both clients that are written in Python name them."""
    assert joining.protocol == "classic", "clients that are written in Python have no consumer protocol"
    return {
        "bootstrap_servers": joining.bootstrap.split(","),
        "group_id": joining.group,
        "group_instance_id": joining.instance,
        "auto_offset_reset": joining.reset,
        "enable_auto_commit": False,
        "partition_assignment_strategy": [strategy],
        "session_timeout_ms": joining.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": METADATA_MS,
    }


def _records(polled: Mapping[Any, Iterable[Any]]) -> list[GroupRec]:
    return [GroupRec(r.partition, r.offset, r.value) for some in polled.values() for r in some]
