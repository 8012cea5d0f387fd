"""The clusters of Apache Kafka of one run: the tests of a file use each one after another.

The next file gets new ones. A broker that restarts may give a topic the configs of a deleted one of the same name, and
tests of all files like the same names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from peers import security
from peers.kafka.server import KafkaServer
from secured_kafka import USERS, SecuredKafka
from tests.compat.on_kafka.kind import Kind
from waiting import wait_until

_USER: Final = "alice"
_CURRENT_TEST: Final = "PYTEST_CURRENT_TEST"
"""The environment variable in which pytest names the test."""
_LIMIT_S: Final = 60.0
_TRY_S: Final = 10.0
_SETTINGS: Final = MappingProxyType(
    {
        # As `ottla.testing.Cluster` has it.
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "auto.create.topics.enable": "false",
        # So that tests that kill a broker, or let a transaction time out, wait for seconds.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    }
)


class Servers:
    """`with Servers(kind, folder) as servers:` ends all of them with its block."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind: Final = kind
        self._folder: Final = folder
        self._trusted: Final = folder / "trusted.pem"
        """The certificates of the authorities of all clusters."""
        self._running = ExitStack()
        self._free: dict[int, list[KafkaServer]] = {}
        self._started = 0
        self._file = ""

    def __enter__(self) -> Servers:
        if self.kind.logs_in:
            login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": _USER, "sasl.password": USERS[_USER]}
            tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self._trusted)}
            security.write(Path(os.environ[security.VARIABLE]), {**login, **tls})
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def take(self, nodes: int) -> KafkaServer:
        """Return a cluster of so many nodes that nobody uses, and that has no topics and no groups."""
        file = os.environ[_CURRENT_TEST].partition("::")[0]
        if file != self._file:
            self._running.close()
            self._running, self._free, self._file = ExitStack(), {}, file
        free = self._free.setdefault(nodes, [])
        return free.pop() if free else self._running.enter_context(self._make(nodes))

    def give_back(self, server: KafkaServer, nodes: int) -> None:
        """Let the next one use it: all nodes run, and what was made there is deleted."""
        server.start(*(set(range(nodes)) - server.running))
        _empty(server.bootstrap)
        self._free[nodes].append(server)

    def bootstrap(self, server: KafkaServer) -> str:
        """The addresses for the clients that are tested."""
        return server.bootstrap_of(self.kind.listener) if self.kind.logs_in else server.bootstrap

    def _make(self, nodes: int) -> KafkaServer:
        self._started += 1
        folder = self._folder / f"cluster-{self._started}"
        folder.mkdir()
        if not self.kind.logs_in:
            return KafkaServer(folder, nodes=nodes, version=self.kind.release, settings=_SETTINGS, heap="512m")
        super_users = {"super.users": f"User:ANONYMOUS;User:{_USER}"}
        kafka = SecuredKafka(folder, nodes=nodes, version=self.kind.release, settings={**_SETTINGS, **super_users})
        with self._trusted.open("ab") as trusted:
            trusted.write(kafka.authority.certificate.read_bytes())
        return kafka.server


def _empty(bootstrap: str) -> None:
    """Delete topics and groups. What somebody else deletes meanwhile, or still uses, is left alone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [name for name in admin.list_topics(timeout=_LIMIT_S).topics if not name.startswith("__")]
    groups: list[str] = []

    def are_listed() -> bool:
        # A broker that was just started may not answer at once.
        with suppress(KafkaException, TimeoutError):
            listed = admin.list_consumer_groups(request_timeout=_TRY_S).result(2 * _TRY_S)
            groups[:] = [group.group_id for group in listed.valid]
            return not listed.errors
        return False

    wait_until(are_listed)
    _wait(admin.delete_topics, topics)
    _wait(admin.delete_consumer_groups, groups)


def _wait(delete: Callable[..., dict[str, Future[Any]]], names: list[str]) -> None:
    for deleted in delete(names, request_timeout=_LIMIT_S).values() if names else ():
        with suppress(KafkaException):
            deleted.result(_LIMIT_S)
