"""The processes of a stack, with their ports and arguments: the table of docs/design/architecture.md as data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_stack.secure_files import SecureFiles

DEFAULT_PORT_BASE: Final = 9600
_ETCD, _ETCD_PEER, _CONTROLLER, _BROKER, _GROUP_COORDINATOR = 0, 1, 40, 50, 60
_TXN_COORDINATOR, _MIRROR, _ADMIN = 70, 80, 100
_KAFKA: Final = 9092 - DEFAULT_PORT_BASE
"""With this, Kafka clients find the first broker at their default port."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """One process: its name, its command line, its gRPC and its admin port, and a broker's Kafka port, or else 0."""

    name: str
    command: tuple[str, ...]
    port: int
    admin_port: int
    kafka_port: int = 0


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

    @property
    def etcd_directory(self) -> Path:
        return self.directory / "etcd"

    @property
    def etcd_port(self) -> int:
        return self.port_base + _ETCD

    @property
    def etcd_peer_port(self) -> int:
        return self.port_base + _ETCD_PEER

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients."""
        return ",".join(f"127.0.0.1:{s.kafka_port}" for s in self.services() if s.kafka_port)

    @property
    def first_configs(self) -> dict[str, int]:
        """These are the configs of a new cluster: 3 replicas, or as many as there are brokers. min.insync.replicas is
        one less, or 1."""
        replicas = min(3, self.brokers)
        return {"default.replication.factor": replicas, "min.insync.replicas": max(1, replicas - 1)}

    @property
    def admin_token(self) -> str:
        """The token for the services' admin ports, or "" if they need none."""
        return self.secure.admin_token.read_text().strip() if self.secure is not None else ""

    def ports(self) -> list[int]:
        of_services = [p for s in self.services() for p in (s.port, s.admin_port, s.kafka_port) if p]
        return [self.etcd_port, self.etcd_peer_port, *of_services]

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
        kafka_port = self.port_base + _KAFKA + number if kind == "broker" else 0
        settings: dict[str, object] = {"node-id": number, "port": port, "admin-port": port + _ADMIN}
        if kind == "mirror":
            settings["file"] = self.mirror
        else:
            scheme = "https://" if self.secure else ""
            settings |= {"cluster-id": self.cluster_id, "etcd": f"{scheme}127.0.0.1:{self.etcd_port}"}
        if kind == "broker":
            settings["data-dir"] = self.directory / f"broker-{number}"
            settings["kafka-port"] = kafka_port
            if self.mirror:
                settings["mirrors"] = f"127.0.0.1:{self.port_base + _MIRROR}"
        if kind == "txn-coordinator":
            settings["transaction-two-phase-commit-enable"] = "true"  # for Spark's writes exactly once
        if kind == "controller":
            settings["first-configs"] = ",".join(f"{name}={value}" for name, value in self.first_configs.items())
        if self.secure:
            settings.pop("kafka-port", None)
            settings |= self.secure.settings(kind, kafka_port)
        if self.certificates:
            settings |= _internal_tls(self.certificates, f"{kind}-{number}")
        command = [
            sys.executable,
            "-m",
            f"ottla_{kind.replace('-', '_')}",
            *(f"--{key}={value}" for key, value in settings.items()),
        ]
        return ServicePlan(f"{kind}-{number}", tuple(command), port, port + _ADMIN, kafka_port)


def _internal_tls(directory: Path, name: str) -> dict[str, object]:
    return {
        "internal-tls-certificate": directory / f"{name}.pem",
        "internal-tls-key": directory / f"{name}.key",
        "internal-tls-ca": directory / "ca.pem",
    }
