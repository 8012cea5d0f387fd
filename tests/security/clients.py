"""Tries Kafka's clients at a secured cluster: each logs in in each way, and goes on while passwords, certificates and
brokers change.

A round has one way to log in, three brokers, and all clients at once, each with a topic of its own. A client that has
its connections goes on when the password changes. Then the old password is refused, and the new one is accepted. A
client with the new one goes on when the brokers' certificate is replaced, and when the broker that leads its topic is
killed. In the end its topic has each record once, in order.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Final

from certificates import Authority
from cluster_security import ADMIN, ADMIN_PASSWORD, MECHANISMS, PASSWORD, USER, Security
from confluent_kafka.admin import NewTopic
from peers import python_clients, security
from peers.client import Rec
from peers.driver import Driver
from peers.go.driver import franz_go, sarama
from peers.java.driver import java_client
from peers.kafkajs.driver import kafkajs
from waiting import wait_until

import ottla
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

CERTIFICATE: Final = "certificate"
"""This is the way to log in without a password: the client's certificate says who it is."""
WAYS: Final = (*MECHANISMS, CERTIFICATE)
CLIENTS: Final[Mapping[str, Callable[[], Driver]]] = MappingProxyType(
    {
        "java": java_client,
        "confluent-kafka": python_clients.confluent,
        "kafka-python": python_clients.kafka_python,
        "aiokafka": python_clients.aiokafka,
        "kcat": python_clients.kcat,
        "franz-go": franz_go,
        "sarama": sarama,
        "kafkajs": kafkajs,
    }
)
_NEW_PASSWORD: Final = "another-wonder-18"
_BATCH: Final = 100
"""This is the number of records that are sent before each change, and after the last one. kcat reads its input by the
kilobyte."""
_LEADER: Final = 0
_LIMIT_S: Final = 240.0
_TLS_LIMIT_S: Final = 10.0
_REFUSED: Final = re.compile(r"authenticat|certificate|unknown ca|the password is wrong", re.IGNORECASE)
_CLOSED: Final = re.compile(r"disconnected|closed", re.IGNORECASE)
"""Some clients say no more. aiokafka does not pass on alerts of TLS. kafka-python throws away what came just before the
end of a connection, which is the answer to its login. It does so with Apache Kafka, too."""
_REASON: Final = "the user name or the password is wrong"


@dataclass
class Outcome:
    """`wrong` says which client did not do what it should, by its way to log in. `told` is what it said of a login that
    was refused."""

    clients: list[str] = field(default_factory=list)
    mechanisms: int = 0
    cells: int = 0
    wrong: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "clients": self.clients,
            "mechanisms": self.mechanisms,
            "cells": self.cells,
            "wrong": self.wrong,
            "told": self.told,
        }


class Sending:
    """A producer that sends values as they are given to it, on a thread of its own, until `finish`."""

    def __init__(self, threads: ThreadPoolExecutor, client: Driver, bootstrap: str, topic: str) -> None:
        self._given: Final[SimpleQueue[Rec | None]] = SimpleQueue()
        self._sent: Final[Future[list[int]]] = threads.submit(
            client.produce, bootstrap, topic, iter(self._given.get, None), idempotent=True
        )

    @property
    def has_ended(self) -> bool:
        return self._sent.done()

    def send(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._given.put(Rec(b"k", b"%d" % number))

    def close(self) -> None:
        """Send nothing more."""
        self._given.put(None)

    def finish(self) -> list[int]:
        """Return the offsets of all records. Raises PeerError."""
        self.close()
        return self._sent.result(_LIMIT_S)


class Cell:
    """One client that logs in in one way. `failed` says what it did not do; after that it does nothing more."""

    def __init__(self, name: str, client: Driver, way: str) -> None:
        self.name: Final = f"{name} by {way}"
        self.client: Final = client
        self.topic: Final = f"of-{name}"
        self.failed = ""
        self.told = ""
        self.sending: Sending | None = None

    def do(self, what: str, work: Callable[[Cell], None]) -> None:
        if not self.failed:
            try:
                work(self)
            except Exception as error:  # whatever it is, it is this client's failure
                self.failed = f"{what}: {error}"


class Round:
    """This is a round of all clients at one cluster, which has one way to log in."""

    def __init__(self, folder: Path, way: str, clients: Mapping[str, Driver], threads: ThreadPoolExecutor) -> None:
        self._folder: Final = folder
        self._way: Final = way
        self._threads: Final = threads
        self._secured: Final = Security(folder, "SSL" if way == CERTIFICATE else "SASL_SSL")
        self.cells: Final = [Cell(name, client, way) for name, client in clients.items()]

    def run(self) -> None:
        with Cluster(brokers=3, broker_settings=self._secured.of_brokers) as cluster:
            self._secured.allow(cluster.bootstrap)
            self._create_topics(cluster)
            self._each("old connections go on", self._start(cluster, "old", PASSWORD))
            self._sent(cluster, range(_BATCH))
            if self._way != CERTIFICATE:
                self._change_password(cluster)
            self._sent(cluster, range(_BATCH, 2 * _BATCH))
            self._each("old connections go on", _finished(range(2 * _BATCH)))
            self._each("a wrong login is refused", self._refused(cluster))

            self._each("new connections", self._start(cluster, "new", self._password))
            self._sent(cluster, range(2 * _BATCH, 3 * _BATCH))
            self._replace_certificate(cluster)
            self._sent(cluster, range(3 * _BATCH, 4 * _BATCH))
            cluster.brokers[_LEADER].kill()
            self._sent(cluster, range(4 * _BATCH, 5 * _BATCH))
            self._each("a certificate and a broker change", _finished(range(2 * _BATCH, 5 * _BATCH)))
            cluster.brokers[_LEADER].restart()
            self._each("each record is there once", self._read_all(cluster))

    def close(self) -> None:
        """End the producers of clients that have failed."""
        for cell in self.cells:
            if cell.sending is not None:
                cell.sending.close()

    @property
    def _password(self) -> str:
        return PASSWORD if self._way == CERTIFICATE else _NEW_PASSWORD

    def _each(self, what: str, work: Callable[[Cell], None]) -> None:
        """Have all clients take this step at the same time."""
        list(self._threads.map(lambda cell: cell.do(what, work), self.cells))

    def _settings(self, password: str) -> dict[str, str]:
        mechanism = MECHANISMS[0] if self._way == CERTIFICATE else self._way
        return self._secured.of_client(USER, mechanism, password)

    def _create_topics(self, cluster: Cluster) -> None:
        admin = self._secured.admin(cluster.bootstrap)
        replicas = [_LEADER, *(broker.id for broker in cluster.brokers if broker.id != _LEADER)]
        new = [
            NewTopic(
                cell.topic, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2", "retention.ms": "-1"}
            )
            for cell in self.cells
        ]
        for created in admin.create_topics(new).values():
            created.result(_LIMIT_S)

    def _start(self, cluster: Cluster, name: str, password: str) -> Callable[[Cell], None]:
        settings = self._settings(password)
        security.write(self._folder / name, settings)

        def start(cell: Cell) -> None:
            client = cell.client.secured(self._folder / name)
            cell.sending = Sending(self._threads, client, cluster.bootstrap, cell.topic)

        return start

    def _sent(self, cluster: Cluster, numbers: range) -> None:
        """Have each producer send these values, and wait until the first one is in its topic or the producer has
        ended."""
        sending = [(cell, cell.sending) for cell in self.cells if cell.sending is not None]
        for _, producer in sending:
            producer.send(numbers)
        with ottla.Admin(cluster.bootstrap, **self._admin()) as admin:
            for cell, producer in sending:

                def is_done(cell: Cell = cell, producer: Sending = producer) -> bool:
                    return producer.has_ended or _end(admin, cell.topic) > numbers.start

                what = f"records {numbers.start} to {numbers.stop - 1}"
                cell.do(what, lambda _, is_done=is_done: wait_until(is_done, limit_s=_LIMIT_S))

    def _admin(self) -> dict[str, Any]:
        ca = self._secured.authority.certificate
        if self._way == CERTIFICATE:
            own = self._secured.of_client(ADMIN)
            return {"tls": ottla.Tls(ca, own["ssl.certificate.location"], own["ssl.key.location"])}
        return {"tls": ottla.Tls(ca), "login": ottla.Scram(ADMIN, ADMIN_PASSWORD)}

    def _change_password(self, cluster: Cluster) -> None:
        """Change the password, and wait until each broker refuses the old one."""
        self._secured.set_password(cluster.bootstrap, USER, _NEW_PASSWORD)
        for broker in cluster.brokers:
            wait_until(lambda broker=broker: self._is_refused(broker.kafka_address))

    def _is_refused(self, address: str) -> bool:
        mechanism: Any = self._way
        login = ottla.Plain(USER, PASSWORD) if mechanism == "PLAIN" else ottla.Scram(USER, PASSWORD, mechanism)
        try:
            with ottla.Admin(address, login=login, tls=ottla.Tls(self._secured.authority.certificate)) as admin:
                admin.topics.list()
        except ottla.AuthenticationError as error:
            return error.code == ErrorCode.SASL_AUTHENTICATION_FAILED
        return False

    def _refused(self, cluster: Cluster) -> Callable[[Cell], None]:
        """Return a step that tries the old password, or a certificate of an authority that the brokers do not trust."""
        settings = self._settings(PASSWORD)
        if self._way == CERTIFICATE:
            foreign = Authority(self._folder / "foreign", "Foreign CA").issue(USER)
            settings |= {
                "ssl.certificate.location": str(foreign.certificate),
                "ssl.key.location": str(foreign.key),
            }
        security.write(self._folder / "refused", settings)

        def refuse(cell: Cell) -> None:
            told = cell.client.secured(self._folder / "refused").refusal(cluster.bootstrap, cell.topic)
            lines = [line.strip() for line in told.splitlines() if _REFUSED.search(line) or _CLOSED.search(line)]
            if not lines:
                raise AssertionError(f"it says {told!r}" if told else "it was let in")
            cell.told = max(lines, key=_clarity)[:300]

        return refuse

    def _replace_certificate(self, cluster: Cluster) -> None:
        """Replace the brokers' certificate, and wait until each broker shows the new one."""
        shown = {broker.kafka_address: self._certificate(broker.kafka_address) for broker in cluster.brokers}
        self._secured.renew()
        for address, former in shown.items():
            wait_until(lambda address=address, former=former: self._certificate(address) != former)

    def _certificate(self, address: str) -> bytes | None:
        context = ssl.create_default_context(cafile=self._secured.authority.certificate)
        if self._way == CERTIFICATE:
            own = self._secured.of_client(ADMIN)
            context.load_cert_chain(own["ssl.certificate.location"], own["ssl.key.location"])
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), _TLS_LIMIT_S) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            return secured.getpeercert(binary_form=True)

    def _read_all(self, cluster: Cluster) -> Callable[[Cell], None]:
        wanted = [b"%d" % number for number in range(5 * _BATCH)]

        def read(cell: Cell) -> None:
            client = cell.client.secured(self._folder / "new")
            found = [record.value for record in client.consume(cluster.bootstrap, cell.topic, len(wanted))]
            with ottla.Admin(cluster.bootstrap, **self._admin()) as admin:
                end = _end(admin, cell.topic)
            if found != wanted or end != len(wanted):
                raise AssertionError(f"it has {end} records, and the client reads {found}")

        return read


def _finished(numbers: range) -> Callable[[Cell], None]:
    def finish(cell: Cell) -> None:
        if cell.sending is not None:
            sending, cell.sending = cell.sending, None
            offsets = sending.finish()
            if offsets != list(numbers):
                raise AssertionError(f"the offsets are {offsets}")

    return finish


def _clarity(line: str) -> int:
    """Return how clearly a client says why it was refused: best in the broker's own words."""
    return 2 * (_REASON in line) + bool(_REFUSED.search(line))


def _end(admin: ottla.Admin, topic: str) -> int:
    """Return the end of the only partition, or 0 while it has no leader."""
    with suppress(ottla.OttlaError):
        return admin.topics.offsets(topic)[0] or 0
    return 0


def try_all(folder: Path, names: Sequence[str] = tuple(CLIENTS), ways: Sequence[str] = WAYS) -> Outcome:
    """Try these clients in each of these ways."""
    outcome = Outcome(mechanisms=len(ways))
    clients = {name: CLIENTS[name]() for name in names}
    outcome.clients = [f"{name} {client.version}" for name, client in clients.items()]
    for cell in _cells(folder, clients, ways):
        outcome.cells += 1
        if cell.told:
            outcome.told[cell.name] = cell.told
        if cell.failed:
            outcome.wrong.append(f"{cell.name}: {cell.failed}")
    return outcome


def _cells(folder: Path, clients: Mapping[str, Driver], ways: Sequence[str]) -> Iterator[Cell]:
    # One thread for what each client does now, and one for its producer.
    with ThreadPoolExecutor(2 * len(clients)) as threads:
        for way in ways:
            this = Round(folder / way.lower(), way, clients, threads)
            try:
                this.run()
            finally:
                this.close()
            yield from this.cells


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ottla-clients-") as place:
        found = try_all(Path(place), *(argument.split(",") for argument in sys.argv[1:]))
    for told in sorted(found.told.items()):
        print(": ".join(told))
    print(json.dumps(found.as_json()), flush=True)
    sys.exit(1 if found.wrong else 0)
