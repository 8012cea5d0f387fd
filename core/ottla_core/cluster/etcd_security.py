"""Protects a service's connections to etcd by TLS, the service's own certificate, and a user with a password.

etcd knows a service by its user and password, or by the common name of its certificate. The files may be replaced while
the service runs. It reads the password for each login, and certificates when it has to connect again.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final, Protocol, Self

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import NO_FILE, check_private, read_secret
from ottla_core.host_port import HostPort
from ottla_core.security.secret import Secret

_TLS: Final = "https"
_SCHEMES: Final = ("http", _TLS)
_CA, _CERTIFICATE, _KEY, _PASSWORD = "etcd_tls_ca", "etcd_tls_certificate", "etcd_tls_key", "etcd_password_file"

Stamp = tuple[tuple[int, int, int], ...]
"""It changes when files are replaced."""


class EtcdSettings(Protocol):
    """The settings of every service that uses etcd."""

    @property
    def etcd(self) -> tuple[str, ...]: ...
    @property
    def etcd_tls_ca(self) -> PurePath: ...
    @property
    def etcd_tls_certificate(self) -> PurePath: ...
    @property
    def etcd_tls_key(self) -> PurePath: ...
    @property
    def etcd_user(self) -> str: ...
    @property
    def etcd_password_file(self) -> PurePath: ...


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """These are the contents of PEM files. `certificate` and `key` are None if the service has no certificate of its
    own."""

    ca: bytes
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class EtcdSecurity:
    """This protects the connections to etcd. Without a user, etcd knows a service by its certificate, or not at all."""

    ca: PurePath = NO_FILE
    certificate: PurePath = NO_FILE
    key: PurePath = NO_FILE
    user: str = ""
    password_file: PurePath = NO_FILE

    @classmethod
    def of(cls, settings: EtcdSettings) -> Self:
        """Return what a service's settings say about etcd. Raises INVALID_CONFIG if they contradict each other."""
        security = cls(
            settings.etcd_tls_ca,
            settings.etcd_tls_certificate,
            settings.etcd_tls_key,
            settings.etcd_user,
            settings.etcd_password_file,
        )
        security._check(settings.etcd)
        return security

    def password(self) -> Secret:
        """Read the password of the user. Raises INVALID_CONFIG if its file can't be used."""
        return read_secret(_PASSWORD, self.password_file)

    def read_tls(self) -> TlsFiles:
        """Read the certificates. Raises INVALID_CONFIG if a file can't be used."""
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cafile=self.ca)
            ca = Path(self.ca).read_bytes()
        except ssl.SSLError:
            raise _invalid(
                f"the file {self.ca} of {_CA} has no certificates in PEM format", "write a PEM file"
            ) from None
        except OSError as error:
            raise _unreadable(_CA, self.ca, error) from None
        if self.certificate == NO_FILE:
            return TlsFiles(ca)
        try:
            check_private(_KEY, self.key, Path(self.key).stat())
            # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
            context.load_cert_chain(self.certificate, self.key, password="")
            return TlsFiles(ca, Path(self.certificate).read_bytes(), Path(self.key).read_bytes())
        except ssl.SSLError as error:
            reason = (error.reason or "no PEM file").replace("_", " ").lower()
            raise _invalid(
                f"{_CERTIFICATE} {self.certificate} and {_KEY} {self.key} can't be used together ({reason})",
                "give PEM files of one certificate and its key, which is not encrypted",
            ) from None
        except OSError as error:
            raise _unreadable(
                f"{_CERTIFICATE} or {_KEY}", PurePath(error.filename or self.certificate), error
            ) from None

    def stamp(self) -> Stamp:
        """Return a value that changes when a certificate or a key is replaced."""
        return tuple(_stamp(path) for path in (self.ca, self.certificate, self.key) if path != NO_FILE)

    def check_files(self) -> None:
        """Read all files. Raises INVALID_CONFIG if one of them can't be used."""
        if self.ca != NO_FILE:
            self.read_tls()
        if self.user:
            self.password()

    def _check(self, endpoints: Sequence[str]) -> None:
        schemes = {_scheme(endpoint) for endpoint in endpoints}
        if len(schemes) > 1:
            raise _invalid("the setting etcd has both http and https addresses", "write https:// before each of them")
        if schemes == {_TLS}:
            if self.ca == NO_FILE:
                raise _invalid(f"etcd has an https address, and {_CA} is not set", f"set {_CA} to the CA of etcd")
        elif {self.ca, self.certificate, self.key} != {NO_FILE}:
            raise _invalid(f"{_CA}, {_CERTIFICATE} or {_KEY} is set, and etcd has no https address", "write https://")
        if (self.certificate == NO_FILE) != (self.key == NO_FILE):
            raise _invalid(f"only one of {_CERTIFICATE} and {_KEY} is set", "set both or neither")
        if (self.user == "") != (self.password_file == NO_FILE):
            raise _invalid(f"only one of etcd_user and {_PASSWORD} is set", "set both or neither")


NO_SECURITY: Final = EtcdSecurity()
"""This is for an etcd that other hosts can't reach."""


def target(endpoint: str) -> HostPort:
    """Return the host and the port of an address. Raises INVALID_CONFIG if it has none."""
    try:
        return HostPort.parse(endpoint.rpartition("://")[2].rstrip("/"))
    except OttlaError as error:
        raise _invalid(f"etcd: {error.message}", error.hint) from None


def has_tls(endpoint: str) -> bool:
    return endpoint.startswith(f"{_TLS}://")


def _scheme(endpoint: str) -> str:
    scheme, separator, _ = endpoint.partition("://")
    # The address is not repeated, because it may have a password.
    if "@" in endpoint:
        raise _invalid(
            "an address of etcd has an @, as if a user or a password stood before it",
            f"write https://host:port, and set etcd_user and {_PASSWORD}",
        )
    if separator and scheme not in _SCHEMES:
        raise _invalid(f"an address of etcd begins with {scheme}://", "write https://host:port or http://host:port")
    target(endpoint)
    return scheme if separator else _SCHEMES[0]


def _stamp(path: PurePath) -> tuple[int, int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


def _unreadable(setting: str, path: PurePath, error: OSError) -> OttlaError:
    return _invalid(f"the file {path} of {setting} can't be read ({error.strerror})", "check the path and its owner")


def _invalid(description: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, description, hint=hint)
