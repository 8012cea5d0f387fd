"""Reads Kafka's settings of TLS, `ssl.*`: which files, versions and ciphers, and whether clients show a certificate.

Kafka's names of ciphers are translated to OpenSSL's. Python's `ssl` can't choose among the ciphers of TLS 1.3, so a
list has either all three of them or none, which leaves TLS 1.3 out, as in Kafka.

As in Kafka, `ssl_client_auth` is for listeners of the protocol SSL. On SASL_SSL the login says who the client is, so
there it counts only if the entry names the listener.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.principal_mapping import PrincipalMapping

PEM: Final = "PEM"
TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"
PROTOCOLS: Final = (TLS_1_2, TLS_1_3)
DEFAULT_CLIENT_AUTH: Final = ("none",)

_OF_TLS13: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
_OF_TLS12: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
}
"""OpenSSL's names of the ciphers of TLS 1.2, by Kafka's. Others have no forward secrecy, or weak modes."""


class ClientAuth(Enum):
    """These are Kafka's values of ssl.client.auth. They say whether clients show a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """All listeners with TLS have these settings in common. The stores and the file of the key's password are paths,
    which are empty if there is none. `ciphers` are OpenSSL's names for TLS 1.2, or empty for its defaults."""

    keystore: str
    key_password_file: str
    truststore: str
    least_version: str
    most_version: str
    ciphers: str
    mapping: PrincipalMapping


def read_tls(
    keystore: tuple[str, str],
    truststore: tuple[str, str],
    key_password_file: str,
    protocols: Sequence[str],
    cipher_suites: Sequence[str],
    mapping_rules: str,
) -> TlsSettings:
    """Return the settings. Both stores are a path and a type. Raises INVALID_CONFIG."""
    for setting, (_, kind) in (("ssl_keystore_type", keystore), ("ssl_truststore_type", truststore)):
        if kind.upper() != PEM:
            raise _invalid(
                f"{setting} is {kind[:40]!r}, and the broker reads {PEM} alone",
                f"convert the store with keytool and `openssl pkcs12`, and set {setting} to {PEM}",
            )
    if not keystore[0]:
        raise _invalid(
            "a listener has TLS, and there is no certificate",
            "set ssl_keystore_location to a PEM file with the private key and the chain of certificates",
        )
    versions = _versions(protocols)
    ciphers, versions = _ciphers(cipher_suites, versions)
    return TlsSettings(
        keystore[0],
        key_password_file,
        truststore[0],
        min(versions),
        max(versions),
        ciphers,
        PrincipalMapping(mapping_rules),
    )


def read_client_auth(entries: Iterable[str], protocols: Mapping[str, str]) -> dict[str, ClientAuth]:
    """Return whether the clients of each listener show a certificate. `protocols` are by the listeners' names."""
    setting, everywhere, named = "ssl_client_auth", ClientAuth.NONE, dict[str, ClientAuth]()
    for entry in map(str.strip, entries):
        name, colon, text = entry.rpartition(":")
        name = name.strip().upper()
        try:
            auth = ClientAuth(text.strip().lower())
        except ValueError:
            raise _invalid(f"{setting}: {entry[:80]!r} is no way to ask for certificates", _EXAMPLE) from None
        if not colon:
            everywhere = auth
        elif "SSL" not in protocols.get(name, ""):
            raise _invalid(f"{setting}: there is no listener {name} with TLS", _EXAMPLE)
        else:
            named[name] = auth
    of_all = {name: everywhere for name, protocol in protocols.items() if protocol == "SSL"}
    return of_all | named


_EXAMPLE: Final = "write none, requested or required, or for one listener NAME:required"


def _versions(protocols: Sequence[str]) -> list[str]:
    unknown = [protocol for protocol in protocols if protocol not in PROTOCOLS]
    if unknown or not protocols:
        what = f"has {unknown[0][:40]!r}" if unknown else "is empty"
        raise _invalid(f"ssl_enabled_protocols {what}", f"use {' or '.join(PROTOCOLS)}")
    return list(protocols)


def _ciphers(suites: Sequence[str], versions: Sequence[str]) -> tuple[str, list[str]]:
    """Return OpenSSL's list of ciphers for TLS 1.2, and the versions for which there is a cipher."""
    if not suites:
        return "", list(versions)
    setting = "ssl_cipher_suites"
    for suite in suites:
        if suite not in _OF_TLS13 and suite not in _OF_TLS12:
            raise _invalid(f"{setting} has {suite[:80]!r}, which is not served", f"use some of {', '.join(_OF_TLS12)}")
    of_tls13 = _OF_TLS13.intersection(suites)
    if of_tls13 and of_tls13 != _OF_TLS13:
        raise _invalid(
            f"{setting} has some ciphers of TLS 1.3, among which the broker can't choose",
            f"name all of {', '.join(sorted(_OF_TLS13))}, or none of them, which turns TLSv1.3 off",
        )
    of_tls12 = [_OF_TLS12[suite] for suite in suites if suite in _OF_TLS12]
    usable = {TLS_1_2: bool(of_tls12), TLS_1_3: bool(of_tls13)}
    left = [version for version in versions if usable[version]]
    if not left:
        raise _invalid(f"{setting} has no cipher for ssl_enabled_protocols", "name ciphers of an enabled version")
    return ":".join(of_tls12), left


def _invalid(description: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, description, hint=hint)
