"""The Kafka listeners of a broker, read from its settings as Kafka spells them: NAME://host:port, separated by commas.

    kafka_listeners           INTERNAL://0.0.0.0:19092,EXTERNAL://0.0.0.0:9092      where connections are taken
    kafka_advertised          INTERNAL://broker-0:19092,EXTERNAL://localhost:9092   what clients of that listener get
    kafka_listener_protocols  INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL                  whether there is TLS, and a login

A broker with one listener needs no name: it has `kafka_port`, and plain host:port for kafka_advertised. As in Kafka,
the case of names does not matter. Port 0 is a free port or, in an advertised address, the port that the listener has
got.

The protocols are Kafka's listener.security.protocol.map. Without it a listener that is named after a protocol has that
one, and any other is PLAINTEXT. With it each listener needs an entry or such a name, as in Kafka: a name that is
misspelled there must not open a port to everyone. As in Kafka, it may have entries for listeners that are not there.

PLAIN sends passwords in clear, so it is for connections with TLS. Unlike Kafka, ottla does not enable it on
SASL_PLAINTEXT, unless sasl_plain_without_tls says that something else protects the connections, such as a proxy that
ends TLS on this host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.security.plain import PLAIN
from ottla_core.security.scram import MECHANISMS
from ottla_core.security.tls_settings import DEFAULT_CLIENT_AUTH, ClientAuth, read_client_auth

ONLY_LISTENER: Final = "PLAINTEXT"
"""Kafka's name for a listener that was given none."""

SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
"""Kafka's protocol for logins without TLS."""
_PLAINTEXT: Final = "PLAINTEXT"
_SSL: Final = "SSL"
_SASL_SSL: Final = "SASL_SSL"
_SERVED: Final = (_PLAINTEXT, _SSL, SASL_PLAINTEXT, _SASL_SSL)
_NAME: Final = re.compile(r"[A-Z0-9][A-Z0-9_.-]*")
_MISLEADING: Final = frozenset({"TLS", "HTTPS"})
"""These are no protocols of Kafka's, so a listener with such a name would have no TLS."""
_EXAMPLE: Final = "such as EXTERNAL://kafka.example.org:9092"


class KafkaListener(NamedTuple):
    """`bound` is where it takes connections. `advertised` is what its clients get; None means the address by which they
    came. `protocol` is Kafka's name for it. `client_auth` is whether clients show a certificate."""

    name: str
    bound: HostPort
    advertised: HostPort | None = None
    protocol: str = _PLAINTEXT
    client_auth: ClientAuth = ClientAuth.NONE

    @property
    def expects_login(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, _SASL_SSL)

    @property
    def has_tls(self) -> bool:
        return self.protocol in (_SSL, _SASL_SSL)


def read_listeners(
    host: str,
    port: int,
    listeners: Sequence[str],
    advertised: Sequence[str],
    protocols: Sequence[str] = (),
    client_auth: Sequence[str] = DEFAULT_CLIENT_AUTH,
) -> tuple[KafkaListener, ...]:
    """Return `listeners`, with `host` in place of an empty host; if there are none, the one on `host` and `port`.

    Raises INVALID_CONFIG for what Kafka rejects, too: a repeated name, or an advertised host that clients can't connect
    to.
    """
    bound = _by_name("kafka_listeners", listeners) or {ONLY_LISTENER: HostPort(host, port)}
    reported, spoken = _advertised(advertised, bound), _protocols(protocols, bound)
    asked = read_client_auth(client_auth, spoken)
    return tuple(
        KafkaListener(
            name,
            HostPort(at.host or host, at.port),
            reported.get(name),
            spoken[name],
            asked.get(name, ClientAuth.NONE),
        )
        for name, at in bound.items()
    )


def check_mechanisms(enabled: Sequence[str], *, plain_is_protected: bool) -> None:
    """Raise INVALID_CONFIG unless all of these mechanisms of SASL may be enabled. `plain_is_protected` says that every
    listener with logins has TLS, or something in its place."""
    setting, served = "sasl_enabled_mechanisms", (*MECHANISMS, PLAIN)
    if not enabled or len(set(enabled)) < len(enabled):
        raise _invalid(f"{setting} is empty or has a mechanism twice", f"name some of {', '.join(served)}")
    for mechanism in enabled:
        if mechanism not in served:
            raise _invalid(f"{setting}: {mechanism!r} is not served", f"there is {', '.join(served)}")
    if PLAIN in enabled and not plain_is_protected:
        raise _invalid(
            f"{setting} has PLAIN, which sends passwords in clear, and a listener has {SASL_PLAINTEXT}",
            f"give that listener {_SASL_SSL}, use {' or '.join(MECHANISMS)}, or set sasl_plain_without_tls if a proxy "
            "on this host ends TLS",
        )


def check_ports_differ(listeners: Iterable[KafkaListener], rest: Mapping[str, int]) -> None:
    """Raise INVALID_CONFIG if two listeners have one port, or a listener has one of the `rest`, which are ports by
    their descriptions."""
    names = {port: description for description, port in rest.items()}
    for listener in listeners:
        port, description = listener.bound.port, f"the Kafka listener {listener.name}"
        if port and port in names:
            raise _invalid(f"{names[port]} and {description} have the same port {port}", "give each its own")
        names[port] = description


def _by_name(setting: str, entries: Iterable[str]) -> dict[str, HostPort]:
    found: dict[str, HostPort] = {}
    for entry in map(str.strip, entries):
        name, scheme_end, address = entry.partition("://")
        if not scheme_end:
            raise _invalid(f"{setting}: {entry!r} has no name", f"write NAME://host:port, {_EXAMPLE}")
        name = _name(setting, entry, name.upper())
        if name in found:
            raise _invalid(f"{setting} has {name} twice", "give each listener its own name")
        found[name] = _address(setting, address)
    return found


def _name(setting: str, entry: str, name: str) -> str:
    if name in _MISLEADING:
        raise _invalid(
            f"{setting}: {entry!r} asks for {name}, which is no protocol of Kafka's",
            f"use {_SSL} or {_SASL_SSL} for TLS, or a name of your own and kafka_listener_protocols",
        )
    if not _NAME.fullmatch(name):
        raise _invalid(f"{setting}: {entry!r} begins with no name", "a name has letters, digits, '_', '.' and '-'")
    return name


def _address(setting: str, text: str) -> HostPort:
    try:
        return HostPort.parse(text, listens=True)
    except OttlaError as error:
        raise _invalid(f"{setting}: {error.message}", error.hint) from None


def _advertised(entries: Sequence[str], bound: dict[str, HostPort]) -> dict[str, HostPort]:
    setting = "kafka_advertised"
    plain = [entry for entry in entries if "://" not in entry]
    if plain and len(bound) > 1:
        raise _invalid(
            f"{setting}: {plain[0]!r} names no listener",
            f"write NAME://host:port; there is {', '.join(bound)}",
        )
    found = _by_name(setting, (entry if "://" in entry else f"{next(iter(bound))}://{entry}" for entry in entries))
    for name, address in found.items():
        if name not in bound:
            raise _invalid(f"{setting}: there is no listener {name}", f"there is {', '.join(bound)}")
        if address.is_every_interface:
            raise _invalid(
                f"{setting}: {name}://{address} names no host that clients can connect to",
                "give the name or address by which the clients of this listener reach the broker",
            )
    return found


def _protocols(entries: Sequence[str], bound: Iterable[str]) -> dict[str, str]:
    """Return the protocol of each listener."""
    setting, mapped = "kafka_listener_protocols", dict[str, str]()
    for entry in map(str.strip, entries):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not (name and colon and protocol):
            raise _invalid(f"{setting}: {entry!r} is not NAME:PROTOCOL", "write, for example, EXTERNAL:SASL_SSL")
        if name in mapped:
            raise _invalid(f"{setting} has {name} twice", "give each listener one protocol")
        mapped[name] = protocol
    spoken = {name: _protocol(setting, name, mapped) for name in bound}
    for name, protocol in spoken.items():
        if protocol not in _SERVED:
            raise _invalid(
                f"{setting}: {name} has {protocol}, which is no protocol of Kafka's", f"use {' or '.join(_SERVED)}"
            )
    return spoken


def _protocol(setting: str, name: str, mapped: Mapping[str, str]) -> str:
    if name in mapped:
        return mapped[name]
    if mapped and name not in _SERVED:
        raise _invalid(f"{setting} has no protocol for the listener {name}", f"add {name}:{_PLAINTEXT} or another one")
    return name if name in _SERVED else _PLAINTEXT


def _invalid(description: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, description, hint=hint)
