"""Reads the certificates of the Kafka listeners from files, which may be replaced while the broker runs.

The broker looks at the files every few seconds, in a thread. New connections get what it has found last, and those that
are open go on. A file that can't be used is reported once, and the former certificate stays. A rotation that stops in
the middle leaves such a file behind, and without the former certificate no client could connect.

OpenSSL reads the keystore itself, because Python has no other way to give it a chain and a key.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Final, NamedTuple

from cryptography import x509

from ottla_broker.listener_settings import KafkaListener
from ottla_broker.storage import files
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.files.secret_file import read_secret
from ottla_core.security.distinguished_name import distinguished_name
from ottla_core.security.principal import ANONYMOUS, NoPrincipalError, of_user
from ottla_core.security.principal_mapping import PrincipalMapping
from ottla_core.security.service_identity import service_uris
from ottla_core.security.tls_settings import TLS_1_2, TLS_1_3, ClientAuth, TlsSettings

_log = logging.getLogger(__name__)

_LOOK_INTERVAL_S: Final = 2.0
_MAX_FILE_BYTES: Final = 1024 * 1024
_VERSIONS: Final = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_UNREADABLE: Final = (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
"""OpenSSL reads certificates that the other library does not."""
_MAX_SHOWN_CHARACTERS: Final = 100


class _Files(NamedTuple):
    """The content of the keystore and the truststore."""

    keystore: bytes
    truststore: bytes

    def digest(self) -> bytes:
        return sha256(sha256(self.keystore).digest() + self.truststore).digest()


class PortIdentity:
    """It shows clients of a listener the broker's certificate, and names them by theirs (tls_port.TlsIdentity)."""

    def __init__(self, keystore: Keystore, client_auth: ClientAuth, mapping: PrincipalMapping | None) -> None:
        """Without a `mapping` certificates name nobody, because clients log in."""
        self._keystore: Final = keystore
        self._client_auth: Final = client_auth
        self._mapping: Final = mapping

    def context(self) -> ssl.SSLContext:
        return self._keystore.contexts[self._client_auth]

    def principal(self, certificate: bytes | None) -> str:
        if certificate is None or self._mapping is None:
            return ANONYMOUS
        try:
            shown = x509.load_der_x509_certificate(certificate)
            own_name, services = distinguished_name(shown), service_uris(_uris(shown))
        except _UNREADABLE:
            raise NoPrincipalError(
                "the client's certificate has a form that can't be read; issue another one"
            ) from None
        if services:
            raise NoPrincipalError(
                f"the client has shown the certificate of a service, {services[0][:_MAX_SHOWN_CHARACTERS]!r}, and not "
                "one of a Kafka client; issue one with `ottla ca issue client NAME --dir DIR`"
            )
        name = self._mapping.name(own_name)
        if name is None:
            raise NoPrincipalError(
                "no rule of ssl_principal_mapping_rules matches the name in the client's certificate"
            )
        return of_user(name)


class Keystore:
    """A component: `start` reads the files, and from then on it looks whether they have changed."""

    def __init__(
        self, settings: TlsSettings, threads: DiskThreads, clock: Clock, look_interval_s: float = _LOOK_INTERVAL_S
    ) -> None:
        self.contexts: dict[ClientAuth, ssl.SSLContext] = {}
        self._settings: Final = settings
        self._threads: Final = threads
        self._clock: Final = clock
        self._look_interval_s: Final = look_interval_s
        self._seen = b""
        """The digest of the files that were looked at last, whether they could be used or not."""
        self._reported = ""
        self._looking: asyncio.Task[None] | None = None

    def identity(self, listener: KafkaListener) -> PortIdentity:
        mapping = None if listener.expects_login else self._settings.mapping
        return PortIdentity(self, listener.client_auth, mapping)

    async def start(self) -> None:
        found = await self._threads.keep(partial(_read, self._settings))
        self._seen = found.digest()
        self.contexts, leaf = await self._threads.keep(partial(_contexts, self._settings, found))
        if warning := _validity(leaf, self._now()) or _without_names(leaf):
            _log.warning("the certificate in %s %s", self._settings.keystore, warning)
        self._looking = asyncio.create_task(self._look(), name="keystore")

    async def stop(self) -> None:
        await end_task(self._looking)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._look_interval_s)
            try:
                await self._look_once()
                self._reported = ""
            except OttlaError as error:
                self._report(error.message)
            except Exception as error:  # whatever it is, the former certificate is better than none
                self._report(f"{type(error).__name__} while it was read")

    async def _look_once(self) -> None:
        found = await self._threads.keep(partial(_read, self._settings))
        digest = found.digest()
        if digest == self._seen:
            return
        contexts, leaf = await self._threads.keep(partial(_contexts, self._settings, found))
        if reason := _validity(leaf, self._now()):
            raise _unusable(self._settings.keystore, f"its certificate {reason}", "")
        self.contexts, self._seen = contexts, digest
        _log.info(
            "new connections get the certificate from %s that is valid until %s",
            self._settings.keystore,
            leaf.not_valid_after_utc.isoformat(),
        )
        if warning := _without_names(leaf):
            _log.warning("the certificate in %s %s", self._settings.keystore, warning)

    def _report(self, reason: str) -> None:
        """Say once why the files can't be used, until they can or the reason is another one."""
        if reason != self._reported:
            self._reported = reason
            _log.error("the former certificate stays in use: %s", reason)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)


def _read(settings: TlsSettings) -> _Files:
    truststore = settings.truststore
    return _Files(
        _content(PurePath(settings.keystore), is_secret=True),
        _content(PurePath(truststore), is_secret=False) if truststore else b"",
    )


def _content(path: PurePath, *, is_secret: bool) -> bytes:
    try:
        if is_secret and not files.is_private(path):
            raise _unusable(path, "other users can read the private key", f"run `chmod 600 {path}`")
        if files.size_bytes(path) > _MAX_FILE_BYTES:
            raise _unusable(path, f"it has more than {_MAX_FILE_BYTES} bytes", "give a PEM file")
        return files.read_bytes(path)
    except OSError as error:
        raise _unusable(
            path, f"it can't be read ({error.strerror})", "give a PEM file that the broker can read"
        ) from None


def _contexts(settings: TlsSettings, found: _Files) -> tuple[dict[ClientAuth, ssl.SSLContext], x509.Certificate]:
    """Return a context for each way to ask for certificates, and the broker's own one. Raises INVALID_CONFIG."""
    leaf, *_ = _certificates(settings.keystore, found.keystore)
    authorities = found.truststore.decode(errors="replace")
    if settings.truststore:
        _certificates(settings.truststore, found.truststore)
    asked = ClientAuth if settings.truststore else (ClientAuth.NONE,)
    return {auth: _context(settings, found.keystore, authorities, auth) for auth in asked}, leaf


def _context(settings: TlsSettings, keystore: bytes, authorities: str, auth: ClientAuth) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.least_version]
    context.maximum_version = _VERSIONS[settings.most_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # With TLS 1.3 each connection proves who the client is, and none resumes a session for which a certificate was
    # valid once. TLS 1.2 keeps its tickets, because without them OpenSSL keeps 20,000 sessions in memory.
    context.num_tickets = 0
    if settings.ciphers:
        context.set_ciphers(settings.ciphers)
    _load(context, settings, keystore)
    if auth is not ClientAuth.NONE:
        context.load_verify_locations(cadata=authorities)
    context.verify_mode = _VERIFY[auth]
    return context


def _load(context: ssl.SSLContext, settings: TlsSettings, keystore: bytes) -> None:
    path = settings.keystore
    if b"PRIVATE KEY-----" not in keystore:
        raise _unusable(path, "it has no private key", "put the key and the chain of certificates into one PEM file")
    file = settings.key_password_file
    password = read_secret("ssl_key_password_file", PurePath(file)).reveal() if file else ""
    try:
        # Without a password OpenSSL would ask on the terminal, and wait.
        context.load_cert_chain(path, password=password)
    except (ssl.SSLError, OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise _unusable(
                path,
                "its private key is not that of its first certificate",
                "put the certificate of the key in front of the others",
            ) from None
        if b"ENCRYPTED" in keystore:
            raise _unusable(
                path, "its private key is encrypted, and ssl_key_password_file does not open it", ""
            ) from None
        raise _unusable(path, "OpenSSL does not take its private key or certificates", "check the file") from None


def _certificates(path: str, content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise _unusable(path, "it has no certificate that can be read", "give a PEM file with certificates") from None


def _validity(leaf: x509.Certificate, now: datetime) -> str:
    """Say why the certificate is not valid now, or nothing."""
    if leaf.not_valid_after_utc < now:
        return f"has expired at {leaf.not_valid_after_utc.isoformat()}; renew it, or check this machine's clock"
    if leaf.not_valid_before_utc > now:
        return f"is valid only from {leaf.not_valid_before_utc.isoformat()}; check this machine's clock"
    return ""


def _uris(certificate: x509.Certificate) -> list[str]:
    """Return the URIs among the certificate's subject alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _without_names(leaf: x509.Certificate) -> str:
    """Say that the certificate names no host, or nothing."""
    try:
        leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return "has no subject alternative names (SAN), so clients that check the host name reject it"
    return ""


def _unusable(path: PurePath | str, reason: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, f"{path} can't be used for TLS: {reason}", hint=hint)
