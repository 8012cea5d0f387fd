"""Reads the certificate of a service for gRPC between services, and reads it again when its files change.

Servers look at the files at each handshake, and channels when they open a connection. A connection that is open stays
as it is. Files that can't be used, such as a certificate without its key while both are being replaced, leave the
former ones in use, and the log says so once.

gRPC does not tell a server why a handshake failed, so it is the caller's error and log that say it (`status`).
"""

from __future__ import annotations

import logging
import os
import shlex
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple, Protocol

import grpc

from ottla_core.clock import Clock, SystemClock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import NO_FILE
from ottla_core.security.service_identity import AUTHORITY_KEY, Role, ServiceIdentity, identity_of

LOOK_INTERVAL_S: Final = 1.0
"""A channel looks at the files again after this time."""
SOON: Final = timedelta(days=30)
"""A certificate that ends within this time is worth a warning."""

_log = logging.getLogger(__name__)


class InternalTlsSettings(Protocol):
    """These settings say where the files are. Without all three, calls between services are not protected."""

    @property
    def internal_tls_certificate(self) -> PurePath: ...
    @property
    def internal_tls_key(self) -> PurePath: ...
    @property
    def internal_tls_ca(self) -> PurePath: ...


class Files(NamedTuple):
    """These are the files that the settings name: a certificate, which intermediate ones may follow, its key, and
    authorities."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class Material:
    """This is what the files contained at one time. Channels that use it share their credentials."""

    identity: ServiceIdentity
    expires_at: datetime
    server_configuration: Any
    channel_credentials: Any


_Seen = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of each file."""


class InternalTls:
    """This is the certificate of this process. It may be used from any thread."""

    def __init__(self, files: Files, role: Role, clock: Clock | None = None) -> None:
        """Read the files. Raises INVALID_CONFIG if they can't be used by a service of this role."""
        self._files: Final = files
        self._role: Final = role
        self._clock: Final = clock or SystemClock()
        self._lock: Final = threading.Lock()
        self._seen: _Seen | None = _looked_at(files)
        self._looked_at_s = self._clock.monotonic()
        self._material = self._read()

    @property
    def identity(self) -> ServiceIdentity:
        return self._material.identity

    @property
    def expires_at(self) -> datetime:
        """This is the end of the certificate that new connections use."""
        return self._material.expires_at

    def recent(self) -> Material:
        """Return the material for a channel, as of at most a second ago."""
        is_recent = self._clock.monotonic() - self._looked_at_s < LOOK_INTERVAL_S
        return self._material if is_recent else self.current()

    def current(self) -> Material:
        """Return the material for a connection, with the files as they are now."""
        with self._lock:
            self._looked_at_s = self._clock.monotonic()
            seen = _looked_at(self._files)
            if seen != self._seen:
                self._seen = seen
                self._replace()
            return self._material

    def server_credentials(self) -> Any:
        """Return credentials for a port, whose clients must have a certificate of an authority in the CA file."""
        served = self._material

        def changed() -> Any:
            """Return the configuration for a handshake, or None if it has not changed since the last handshake."""
            nonlocal served
            former, served = served, self.current()
            return None if served is former else served.server_configuration

        return grpc.dynamic_ssl_server_credentials(
            served.server_configuration, changed, require_client_authentication=True
        )

    def _replace(self) -> None:
        try:
            self._material = self._read()
        except OttlaError as error:
            _log.warning("%s; the former certificate stays in use", error)
            return
        _log.info("new connections to and from other services use another certificate of %s", self.identity)

    def _read(self) -> Material:
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        material = _read(self._files, self._role, now)
        if material.expires_at - now < SOON:
            _log.warning(
                "the certificate of %s expires at %s UTC; %s, which needs no restart",
                material.identity,
                material.expires_at.strftime("%Y-%m-%d %H:%M"),
                _renewal(self._files.certificate),
            )
        return material


def open_internal_tls(settings: InternalTlsSettings, role: Role) -> InternalTls | None:
    """Return the certificate that the settings name, or None if they name none. Raises INVALID_CONFIG."""
    return internal_tls(
        settings.internal_tls_certificate, settings.internal_tls_key, settings.internal_tls_ca, role=role
    )


def internal_tls(certificate: PurePath, key: PurePath, ca: PurePath, *, role: Role) -> InternalTls | None:
    """Return the certificate for the files, or None if none is given. Raises INVALID_CONFIG."""
    given = [path for path in (certificate, key, ca) if path != NO_FILE]
    if not given:
        return None
    if len(given) < len(Files._fields):
        raise _unusable(
            "internal_tls_certificate, internal_tls_key and internal_tls_ca belong together, and not all are set",
            "set all of them, or none for a cluster whose services trust everyone who reaches their ports",
        )
    return InternalTls(Files(Path(certificate), Path(key), Path(ca)), role)


def _looked_at(files: Files) -> _Seen | None:
    try:
        stats = [path.stat() for path in files]
    except OSError:
        return None
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


def _read(files: Files, role: Role, now: datetime) -> Material:
    certificate, key, ca = (_content(name, path) for name, path in files._asdict().items())
    identity, expires_at = _checked(files, certificate, key, ca, now)
    if identity.role is not role:
        raise _unusable(
            f"the certificate {files.certificate} is of {identity}, and the role has to be {role}",
            f"give the service a certificate of its role: `ottla ca issue {role} NAME --dir DIR`",
        )
    return Material(
        identity,
        expires_at,
        grpc.ssl_server_certificate_configuration([(key, certificate)], ca),
        grpc.ssl_channel_credentials(ca, key, certificate),
    )


def _content(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(
            f"internal_tls_{setting} {path} can't be read: {error.strerror or error}",
            "correct the path, or make the file readable for the service's user",
        ) from None


def _checked(
    files: Files, certificate: bytes, key: bytes, ca: bytes, now: datetime
) -> tuple[ServiceIdentity, datetime]:
    """Return the identity that the certificate names, and when the certificate expires. Raises INVALID_CONFIG if
    another service would reject it."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        chain = x509.load_pem_x509_certificates(certificate)
        authorities = x509.load_pem_x509_certificates(ca)
    except ValueError:
        raise _unusable(
            f"{files.certificate} or {files.ca} has no certificate in PEM format",
            "give the files that `ottla ca` has written",
        ) from None
    try:
        public_key = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError):  # a TypeError means that it is encrypted
        raise _unusable(f"{files.key} has no unencrypted key in PEM format", "give the certificate's key") from None
    own = chain[0]
    if public_key != own.public_key():
        raise _unusable(f"{files.key} is not the key of {files.certificate}", "give the key of the certificate")
    if own.not_valid_after_utc <= now:
        raise _unusable(
            f"the certificate {files.certificate} has expired at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
            _renewal(files.certificate),
        )

    def is_signer(issuer: x509.Certificate) -> bool:
        try:
            own.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    if not any(is_signer(issuer) for issuer in [*chain[1:], *authorities]):
        raise _unusable(
            f"no authority in {files.ca} has signed {files.certificate}",
            "give the file ca.pem of the authority that has issued the certificate",
        )
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        identity = identity_of(names.get_values_for_type(x509.UniformResourceIdentifier))
    except x509.ExtensionNotFound:
        identity = None
    if identity is None:
        raise _unusable(
            f"the certificate {files.certificate} names no role of a service",
            "issue one with `ottla ca issue ROLE NAME --dir DIR`; those of Kafka clients and listeners are for Kafka's "
            "port",
        )
    return identity, own.not_valid_after_utc


def _renewal(certificate: Path) -> str:
    """Return how to issue the certificate again. Its authority is in a directory of its own, or where it was issued."""
    directory, rotate = certificate.absolute().parent, f"ottla ca rotate {shlex.quote(certificate.stem)}"
    if os.path.exists(directory / AUTHORITY_KEY):
        return f"issue another one with `{rotate} --dir {shlex.quote(str(directory))}`"
    return f"issue another one with `{rotate} --dir DIR`, where DIR has its authority, and copy it here"


def _unusable(message: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, message, hint=hint)
