"""The two servers that are compared, as the runs see them: where clients connect and which processes it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from peers.kafka.server import KafkaServer

from loadtest.rows.footprint import cpu_seconds
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

_LIMIT_S: Final = 60.0
_MIN_IN_SYNC: Final = {3: 2, 1: 1}


@dataclass(frozen=True)
class Side:
    """A server that runs. Of ottla all its processes count: brokers, controller and etcd, for Kafka's nodes are all."""

    name: str
    bootstrap: str
    pids: tuple[int, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    """What librdkafka needs to connect, besides the addresses."""
    _topics: list[str] = field(default_factory=list)

    def with_config(self, config: Mapping[str, str]) -> Side:
        return replace(self, config=config)

    @property
    def options(self) -> tuple[str, ...]:
        """What a program needs to connect, besides the addresses."""
        return tuple(f"--config={name}={value}" for name, value in self.config.items())

    def cpu_s(self) -> float:
        """So far, of all its processes."""
        return sum(map(cpu_seconds, self.pids))

    def resident_mb(self) -> float:
        return sum(map(resident_mb, self.pids))

    def create_topic(
        self,
        name: str,
        partitions: int = 6,
        replicas: int = 1,
        limit_s: float = _LIMIT_S,
        *,
        config: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Through librdkafka, as everything else here."""
        config = {"min.insync.replicas": str(_MIN_IN_SYNC[replicas]), **config}
        admin = self._admin()
        topic = NewTopic(name, partitions, replicas, config=config)
        created = admin.create_topics([topic], operation_timeout=limit_s, request_timeout=limit_s)
        created[name].result(limit_s)
        self._topics.append(name)

    def delete_topics(self) -> None:
        """All that were created here."""
        admin = self._admin()
        deleting = admin.delete_topics(self._topics, operation_timeout=_LIMIT_S) if self._topics else {}
        for each in deleting.values():
            each.result(_LIMIT_S)
        self._topics.clear()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.config})


def side_of(stack: RunningStack, name: str = "ottla") -> Side:
    services = stack.plan.services()
    names = ["etcd", *(service.name for service in services)]
    return Side(name, stack.bootstrap, tuple(stack.pid(name) for name in names))


@contextmanager
def both_sides(directory: Path, brokers: int) -> Iterator[tuple[Side, Side]]:
    """Both run all the time; who is not measured is idle."""
    with (
        RunningStack(directory / "ottla", brokers=brokers, group_coordinators=1, txn_coordinators=1) as stack,
        KafkaServer(directory / "kafka", nodes=brokers) as kafka,
    ):
        yield side_of(stack), Side("kafka", kafka.bootstrap, tuple(kafka.pids))
