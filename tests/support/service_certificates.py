"""Makes certificates of services for tests, and certificates that `InternalTls` would reject."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

import grpc

from ottla_core.rpc.internal_tls import Files, InternalTls, Material
from ottla_core.security.service_identity import Role
from ottla_stack.ca.authority import Issued
from ottla_stack.ca.directory import LIFETIME, CaDirectory
from ottla_stack.ca.subject import Subject


class ServiceCertificates:
    """This is an authority with certificates for services, in a directory."""

    def __init__(self, folder: Path, *, name: str = "test CA") -> None:
        self.directory: Final = CaDirectory(folder)
        self.path: Final = folder
        if not self.directory.authorities_path.exists():
            self.directory.init(name, LIFETIME)

    def of(self, role: Role, name: str = "0") -> InternalTls:
        """Return a service's certificate, as the service has it."""
        subject = Subject(role, name, ("localhost", "127.0.0.1"))
        self.directory.issue_missing([subject], LIFETIME)
        return InternalTls(self.files(role, name), role)

    def files(self, role: Role, name: str = "0") -> Files:
        base = self.path / f"{role}-{name}"
        return Files(base.with_suffix(".pem"), base.with_suffix(".key"), self.directory.authorities_path)

    def issued(self, subject: Subject, lifetime: timedelta = LIFETIME) -> Issued:
        """Return a certificate of any kind. It has expired if its lifetime is negative."""
        return self.directory.authority().issue(subject, lifetime, datetime.now(UTC))

    def channel_tls(self, issued: Issued | None) -> InternalTls:
        """Return what an `AioPeer` takes, with this certificate or none, which nobody has checked."""
        ca = self.directory.authorities_path.read_bytes()
        key, certificate = (issued.key, issued.certificate) if issued is not None else (None, None)
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)
        return cast(InternalTls, _Unchecked(credentials))


class _Unchecked:
    def __init__(self, credentials: Any) -> None:
        self._material: Final = Material(cast(Any, None), datetime.max.replace(tzinfo=UTC), None, credentials)

    def recent(self) -> Material:
        return self._material
