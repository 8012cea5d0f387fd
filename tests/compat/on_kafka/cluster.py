"""Apache Kafka in the place of `ottla.testing.Cluster`: all of it that a test of a client uses.

A test that reaches for anything else is skipped, with the reason: it needs ottla's own services.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self

import pytest
from peers.kafka.server import KafkaServer
from tests.compat.on_kafka.servers import Servers

import ottla

_OF_OTTLA: Final = MappingProxyType(
    {
        "faults": "it makes calls fail by plan inside ottla's services",
        "clock": "it moves the clock of ottla's services",
        "group_coordinators": "it stops ottla's group coordinators, which are services of their own",
        "txn_coordinators": "it stops ottla's transaction coordinators, which are services of their own",
        "grpc_bootstrap": "it calls ottla's services by gRPC",
        "address": "it calls ottla's brokers by gRPC",
        "data_dir": "it reads the files of ottla's brokers",
        "pause": "it lets a broker's calls wait inside ottla's services",
    }
)


class KafkaBroker:
    """One node of Kafka."""

    def __init__(self, server: KafkaServer, number: int) -> None:
        self.id: Final = number
        self.kafka_address: Final = server.bootstrap.split(",")[number]
        """Without a login, for clients of others."""
        self._server: Final = server

    def kill(self) -> None:
        self._server.kill(self.id)

    def stop(self) -> None:
        self._server.stop(self.id)

    def restart(self) -> None:
        if self.id in self._server.running:
            self._server.stop(self.id)
        self._server.start(self.id)

    def __getattr__(self, name: str) -> NoReturn:
        _skip(name)


class KafkaCluster:
    """`with KafkaCluster(servers, brokers=3) as c:` is a cluster of Apache Kafka at `c.bootstrap`.

    Kafka's brokers are its coordinators, so the numbers of ottla's have no meaning here, and racks are not set.
    """

    def __init__(
        self,
        servers: Servers,
        *,
        brokers: int = 1,
        racks: Sequence[str] = (),
        group_coordinators: int = 1,
        txn_coordinators: int = 0,
    ) -> None:
        self._servers: Final = servers
        self._nodes: Final = brokers
        self._server: KafkaServer | None = None
        self.bootstrap = ""
        self.brokers: list[KafkaBroker] = []

    def produce(self, topic: str, values: Iterable[Any], **settings: Any) -> list[ottla.RecordMetadata]:
        with ottla.Producer(self.bootstrap, topic=topic, **settings) as producer:
            deliveries = [producer.send(value) for value in values]
            return [delivery.result() for delivery in deliveries]

    def read(self, topic: str, **settings: Any) -> list[ottla.Record[Any, Any]]:
        with ottla.Consumer(topic, bootstrap=self.bootstrap, start="earliest", stop="end", **settings) as consumer:
            return list(consumer)

    def __enter__(self) -> Self:
        self._server = self._servers.take(self._nodes)
        self.bootstrap = self._servers.bootstrap(self._server)
        self.brokers = [KafkaBroker(self._server, number) for number in range(self._nodes)]
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._servers.give_back(self._server, self._nodes)

    def __getattr__(self, name: str) -> NoReturn:
        _skip(name)


def _skip(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    pytest.skip(f"needs ottla: {_OF_OTTLA.get(name, f'it uses `{name}` of ottla.testing.Cluster')}")
