"""The processes of a stack, with their ports and arguments: the table of docs/design/architecture.md as data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_broker.listener_settings import ONLY_LISTENER, KafkaListener
from ottla_core.host_port import HostPort
from ottla_stack.ports import LOOPBACK
from ottla_stack.secure_files import SecureFiles
from ottla_stack.user_listeners import of_broker, settings_of

DEFAULT_PORT_BASE: Final = 9600
_ETCD, _ETCD_PEER, _CONTROLLER, _BROKER, _GROUP_COORDINATOR = 0, 1, 40, 50, 60
_TXN_COORDINATOR, _MIRROR, _ADMIN = 70, 80, 100
_KAFKA: Final = 9092 - DEFAULT_PORT_BASE
"""With this, Kafka clients find the first broker at their default port."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """One process: its name, its command line, its gRPC and its admin port, and a broker's Kafka listeners."""

    name: str
    command: tuple[str, ...]
    port: int
    admin_port: int
    kafka: tuple[HostPort, ...] = ()

    @property
    def kafka_port(self) -> int:
        """The port of a broker's first Kafka listener, or 0."""
        return self.kafka[0].port if self.kafka else 0


@dataclass(frozen=True, slots=True)
class StackPlan:
    directory: Path
    port_base: int = DEFAULT_PORT_BASE
    cluster_id: str = "ottla"
    controllers: int = 1
    brokers: int = 3
    group_coordinators: int = 2
    txn_coordinators: int = 2
    mirror: Path | None = None
    """It is the file of a mirror's flows. Without it no mirror runs."""
    certificates: Path | None = None
    """It is the directory of `ottla ca`, from which each service has a certificate. Without it they need none."""
    secure: SecureFiles | None = None
    """With it all connections have TLS, clients log in, and ACLs say what they may do."""
    host: str = LOOPBACK
    """The address on which all processes listen."""
    listeners: tuple[KafkaListener, ...] = ()
    """The first broker's Kafka listeners, if the user's settings have any."""

    @property
    def etcd_directory(self) -> Path:
        return self.directory / "etcd"

    @property
    def etcd_port(self) -> int:
        return self.port_base + _ETCD

    @property
    def etcd_address(self) -> str:
        """The address of etcd for services."""
        return f"{'https://' if self.secure else ''}{HostPort(self.host, self.etcd_port)}"

    @property
    def etcd_peer_port(self) -> int:
        return self.port_base + _ETCD_PEER

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients."""
        return ",".join(str(s.kafka[0]) for s in self.services() if s.kafka)

    @property
    def first_configs(self) -> dict[str, int]:
        """These are the configs of a new cluster: 3 replicas, or as many as there are brokers. min.insync.replicas is
        one less, or 1."""
        replicas = min(3, self.brokers)
        return {"default.replication.factor": replicas, "min.insync.replicas": max(1, replicas - 1)}

    @property
    def etcd_users(self) -> list[str]:
        """The names of the services that use etcd. In a secured stack, these services are etcd's users."""
        return [service.name for service in self.services() if not service.name.startswith("mirror")]

    @property
    def admin_token(self) -> str:
        """The token for the services' admin ports, or "" if they need none."""
        return self.secure.admin_token.read_text().strip() if self.secure is not None else ""

    def addresses(self) -> list[tuple[str, HostPort]]:
        """Return the addresses on which processes listen, with the name of each process."""
        own = [("etcd", port) for port in (self.etcd_port, self.etcd_peer_port)]
        own += [(service.name, port) for service in self.services() for port in (service.port, service.admin_port)]
        kafka = [(service.name, address) for service in self.services() for address in service.kafka]
        return [(name, HostPort(self.host, port)) for name, port in own] + kafka

    def services(self) -> list[ServicePlan]:
        """Return controllers, brokers, coordinators and the mirror, in the order in which they are started."""
        return [
            *(self._service("controller", n, _CONTROLLER + n) for n in range(self.controllers)),
            *(self._service("broker", n, _BROKER + n) for n in range(self.brokers)),
            *(self._service("group-coordinator", n, _GROUP_COORDINATOR + n) for n in range(self.group_coordinators)),
            *(self._service("txn-coordinator", n, _TXN_COORDINATOR + n) for n in range(self.txn_coordinators)),
            *([self._service("mirror", 0, _MIRROR)] if self.mirror else []),
        ]

    def _service(self, kind: str, number: int, port_offset: int) -> ServicePlan:
        port = self.port_base + port_offset
        listeners = self._listeners(number) if kind == "broker" else ()
        settings: dict[str, object] = {"node-id": number, "port": port, "admin-port": port + _ADMIN}
        if kind == "mirror":
            settings["file"] = self.mirror
        else:
            settings |= {"cluster-id": self.cluster_id, "etcd": self.etcd_address}
        if kind == "broker":
            settings |= self._of_broker(number, listeners)
        if kind == "txn-coordinator":
            settings["transaction-two-phase-commit-enable"] = "true"  # for Spark's writes exactly once
        if kind == "controller":
            settings["first-configs"] = ",".join(f"{name}={value}" for name, value in self.first_configs.items())
        if self.secure:
            settings |= self.secure.settings(f"{kind}-{number}", *(listener.bound for listener in listeners))
        if self.host != LOOPBACK:
            settings |= {"host": self.host, "admin-host": self.host}
        if self.certificates:
            settings |= _internal_tls(self.certificates, f"{kind}-{number}")
        command = [
            sys.executable,
            "-m",
            f"ottla_{kind.replace('-', '_')}",
            *(f"--{key}={value}" for key, value in settings.items()),
        ]
        kafka = tuple(map(self._dialled, listeners))
        return ServicePlan(f"{kind}-{number}", tuple(command), port, port + _ADMIN, kafka)

    def _of_broker(self, number: int, listeners: Sequence[KafkaListener]) -> dict[str, object]:
        settings: dict[str, object] = {"data-dir": self.directory / f"broker-{number}"}
        if self.listeners:
            settings |= settings_of(listeners)
        elif not self.secure:
            settings["kafka-port"] = listeners[0].bound.port
        if self.mirror:
            settings["mirrors"] = HostPort(self.host, self.port_base + _MIRROR)
        return settings

    def _listeners(self, number: int) -> list[KafkaListener]:
        own = KafkaListener(ONLY_LISTENER, HostPort(self.host, self.port_base + _KAFKA))
        return [of_broker(listener, number) for listener in self.listeners or (own,)]

    def _dialled(self, listener: KafkaListener) -> HostPort:
        """Return where clients on this machine reach a listener."""
        bound = listener.bound
        return HostPort(self.host, bound.port) if bound.is_every_interface else bound


def _internal_tls(directory: Path, name: str) -> dict[str, object]:
    return {
        "internal-tls-certificate": directory / f"{name}.pem",
        "internal-tls-key": directory / f"{name}.key",
        "internal-tls-ca": directory / "ca.pem",
    }
