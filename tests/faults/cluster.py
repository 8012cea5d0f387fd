"""The cluster under test: etcd, controllers and brokers as processes of their own, each in its own network namespace.

It restarts nothing by itself: the nemesis does. What is asked of the cluster is asked over the SDK, of brokers that
nothing was done to.
"""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from tests.faults.network import Nodes
from tests.faults.node import Node

import ottla
from ottla_stack.embedded_etcd import find_etcd

ETCD: Final = "etcd"
BROKERS: Final = 3
CONTROLLERS: Final = 2
START_LIMIT_S: Final = 40.0
HEAL_LIMIT_S: Final = 40.0
_ASK_S: Final = 2.0
_PORTS: Final = {
    "broker": (9650, 9750),
    "controller": (9640, 9740),
    "coordinator": (9660, 9760),
    "txn": (9670, 9770),
}
_ETCD_PORT, _ETCD_PEER_PORT = 9600, 9601
KAFKA_PORT: Final = 9092
_T = TypeVar("_T")


class FaultCluster:
    """`mutant` names one of tests.faults.mutants, which brokers and controllers then run with.

    Group-coordinators are `coordinator-0` and so on, txn-coordinators `txn-0`; there are none unless asked for.
    """

    def __init__(
        self, directory: Path, network: Nodes, *, mutant: str = "", coordinators: int = 0, txn_coordinators: int = 0
    ) -> None:
        self.directory: Final = directory
        self.network: Final[Nodes] = network
        self.brokers: Final = tuple(f"broker-{n}" for n in range(BROKERS))
        self.controllers: Final = tuple(f"controller-{n}" for n in range(CONTROLLERS))
        self.coordinators: Final = tuple(f"coordinator-{n}" for n in range(coordinators))
        self.txn_coordinators: Final = tuple(f"txn-{n}" for n in range(txn_coordinators))
        self.services: Final = (*self.controllers, *self.brokers, *self.coordinators, *self.txn_coordinators)
        self._mutant = mutant
        self.nodes: Final = {name: self._node(name) for name in (ETCD, *self.services)}
        self.topics_beside: tuple[str, ...] = ()
        """Without these, too, the cluster is not whole."""
        self._admins: dict[str, ottla.Admin] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers for clients."""
        return ",".join(self.kafka_address(name) for name in self.brokers)

    def kafka_address(self, name: str) -> str:
        return f"{self.network.address(name)}:{KAFKA_PORT}"

    @property
    def etcd_urls(self) -> tuple[str, str]:
        """For its clients, and for its peers."""
        host = self.network.address(ETCD)
        return f"http://{host}:{_ETCD_PORT}", f"http://{host}:{_ETCD_PEER_PORT}"

    @property
    def data_dirs(self) -> list[Path]:
        return [self.directory / name for name in self.brokers]

    def start(self) -> None:
        """Start all; returns once every service is ready."""
        for node in self.nodes.values():
            node.start()
        for name in self.services:
            self.until_ready(name, START_LIMIT_S)

    def stop(self) -> None:
        """Stop in order, brokers one after the other."""
        for name in (*self.txn_coordinators, *self.coordinators, *self.brokers, *self.controllers, ETCD):
            self.nodes[name].terminate()
            self.nodes[name].wait()

    def kill(self) -> None:
        """Let no process be left, whatever happened."""
        for admin in self._admins.values():
            admin.close()
        for node in self.nodes.values():
            node.kill()

    def recover(self) -> None:
        """Undo whatever was done: heal the network, let everything run."""
        self.network.heal()
        for node in self.nodes.values():
            node.resume()
            if node.pid is None:
                node.start()

    def until_ready(self, name: str, limit_s: float = HEAL_LIMIT_S) -> None:
        until(lambda: self.is_ready(name), f"{name} to be ready", limit_s)

    def is_ready(self, name: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.admin_address(name)}/readyz", timeout=_ASK_S) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    # ---- what the cluster says of itself ---------------------------------------------------------------------------

    def admin(self, besides: Collection[str] = ()) -> ottla.Admin:
        """Return an Admin of the first running broker that is not in `besides`."""
        name = next(n for n in self.brokers if n not in besides and self.nodes[n].pid is not None)
        if name not in self._admins:
            self._admins[name] = ottla.Admin(self.kafka_address(name), request_timeout=_ASK_S)
        return self._admins[name]

    def describe(self, topic: str, besides: Collection[str] = ()) -> Sequence[ottla.PartitionInfo]:
        """The topic's partitions, as a broker that is none of `besides` sees them. Raises OttlaError."""
        return self.admin(besides).topics.describe(topic)[0].partitions

    def leader(self, topic: str, partition: int, besides: Collection[str] = ()) -> str:
        """The node that leads a partition, "" while there is none."""
        leader = self.describe(topic, besides)[partition].leader
        return f"broker-{leader}" if leader >= 0 else ""

    def active_controller(self) -> str:
        """The controller that is elected, "" while none is."""
        number = self.admin().cluster.describe().controller_id
        return f"controller-{number}" if number >= 0 else ""

    def is_whole(self, topic: str) -> bool:
        """Whether every node serves, and every broker says the same: all partitions are led, all replicas in sync."""
        ready = all(self.is_ready(name) for name in self.services)
        return ready and all(self._is_led_and_in_sync(name) for name in (topic, *self.topics_beside))

    def _is_led_and_in_sync(self, topic: str) -> bool:
        try:
            views = [self.describe(topic, besides=[n for n in self.brokers if n != name]) for name in self.brokers]
        except ottla.OttlaError:
            return False
        return all(view == views[0] for view in views) and all(
            p.leader >= 0 and len(p.isr) == len(p.replicas) for p in views[0]
        )

    def until_whole(self, topic: str, limit_s: float = HEAL_LIMIT_S) -> None:
        until(lambda: self.is_whole(topic), "the cluster to be whole again", limit_s)

    # ---- how nodes are started -------------------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """gRPC's, of a service."""
        kind, _, number = name.partition("-")
        return f"{self.network.address(name)}:{_PORTS[kind][0] + int(number)}"

    def admin_address(self, name: str) -> str:
        """Where it tells of itself over HTTP, of a service."""
        kind, _, number = name.partition("-")
        return f"{self.network.address(name)}:{_PORTS[kind][1] + int(number)}"

    def _node(self, name: str) -> Node:
        self.directory.mkdir(parents=True, exist_ok=True)
        command = self._etcd_command() if name == ETCD else self._service_command(name)
        return Node(name, self.network.command(name, command), self.directory / f"{name}.log")

    def _etcd_command(self) -> list[str]:
        client, peer = self.etcd_urls
        command = [str(find_etcd()), "--name", "default", "--data-dir", str(self.directory / ETCD)]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        return [*command, "--initial-cluster", f"default={peer}", "--log-level", "warn"]

    def _service_command(self, name: str) -> list[str]:
        kind, _, number = name.partition("-")
        host = self.network.address(name)
        settings: dict[str, object] = {
            "node-id": number,
            "host": host,
            "port": _PORTS[kind][0] + int(number),
            "admin-host": host,
            "admin-port": _PORTS[kind][1] + int(number),
            "insecure": "true",  # only this test's nodes are on its network
            "etcd": f"{self.network.address(ETCD)}:{_ETCD_PORT}",
        }
        if kind == "broker":
            settings |= {"data-dir": self.directory / name, "rack": f"rack-{number}", "kafka-port": KAFKA_PORT}
        settings |= self.settings(kind)
        return [sys.executable, "-m", *self.module(kind), *(f"--{key}={value}" for key, value in settings.items())]

    def module(self, kind: str) -> list[str]:
        """What is run as a service of that kind, with the arguments that come before its settings."""
        return ["tests.faults.mutants", self._mutant, kind] if self._mutant else [f"ottla_{kind}"]

    def settings(self, kind: str) -> Mapping[str, object]:
        """What else that kind of service is told."""
        return {}


def until(ask: Callable[[], _T], what: str, limit_s: float) -> _T:
    """The first answer that is true. Raises TimeoutError, naming `what` was waited for."""
    give_up_at = time.monotonic() + limit_s
    while not (answer := ask()):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited {limit_s:g} s in vain for {what}")
        time.sleep(0.05)
    return answer
