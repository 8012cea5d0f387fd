"""Says where the files of a secured stack are, and which settings of its services name them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.host_port import HostPort

ADMIN: Final = "admin"
"""The first user, who may do everything."""
PROFILE: Final = "secure"
"""The profile of the first user in the file for clients."""
LISTENER: Final = "kafka"
ETCD: Final = "etcd"
"""These are names of certificates: of the brokers' Kafka listeners, and of etcd."""


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """The files are in `directory`. etcd has an authority of its own, because it trusts every certificate of that
    authority, and Kafka clients may have certificates of the other one."""

    directory: Path

    @classmethod
    def of_stack(cls, directory: Path) -> Self:
        """Return the files of the stack in this directory."""
        return cls(directory / "security")

    @property
    def exist(self) -> bool:
        """It tells whether the stack was secured before. Later starts then stay secured, because an open one would give
        everyone its data."""
        return self.directory.exists()

    @property
    def ca(self) -> Path:
        return self.directory / "ca"

    @property
    def etcd_ca(self) -> Path:
        return self.directory / "etcd-ca"

    @property
    def etcd(self) -> tuple[Path, Path, Path]:
        """Etcd's certificate, its key, and the authority of its clients."""
        certificate = self.etcd_ca / f"listener-{ETCD}.pem"
        return certificate, certificate.with_suffix(".key"), self.etcd_ca / "ca.pem"

    def etcd_client(self, user: str) -> EtcdSecurity:
        """Return the files with which a process logs in to etcd as this user."""
        certificate = self.etcd_ca / f"client-{user}.pem"
        return EtcdSecurity(self.etcd_ca / "ca.pem", certificate, certificate.with_suffix(".key"))

    @property
    def users(self) -> Path:
        return self.directory / "users.toml"

    @property
    def password(self) -> Path:
        return self.directory / f"{ADMIN}.password"

    @property
    def admin_token(self) -> Path:
        """The token for the services' admin ports, whose metrics name topics and groups."""
        return self.directory / "admin-port.token"

    @property
    def clients(self) -> Path:
        """The file of profiles for clients."""
        return self.directory / "clients.toml"

    def settings(self, name: str, *kafka: HostPort) -> dict[str, object]:
        """Return the settings of the service of this name, without those of calls between services. A broker listens
        for clients at the addresses `kafka`."""
        kind = name.rpartition("-")[0]
        settings: dict[str, object] = {"admin-token-file": self.admin_token}
        if kind != "mirror":
            client = self.etcd_client(name)
            settings |= {
                "etcd-tls-ca": client.ca,
                "etcd-tls-certificate": client.certificate,
                "etcd-tls-key": client.key,
            }
        if kind == "broker":
            settings |= {
                "kafka-listeners": ",".join(f"SASL_SSL://{address}" for address in kafka),
                "ssl-keystore-location": self.ca / f"listener-{LISTENER}.keystore.pem",
                "ssl-truststore-location": self.ca / "ca.pem",
                "sasl-enabled-mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
                "sasl-credentials-file": self.users,
                "authorizer-class-name": "StandardAuthorizer",
                "super-users": f"User:{ADMIN}",
            }
        return settings


def files_of(directory: Path, *, secure: bool) -> SecureFiles | None:
    """Return the files of the stack in this directory if it is to be secured, or has been secured before."""
    files = SecureFiles.of_stack(directory)
    return files if secure or files.exist else None
