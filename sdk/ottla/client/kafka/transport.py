"""Connections of one client over Kafka's protocol. They share one network thread."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.peer import KafkaPeer
from ottla.client.kafka.sockets.address import Address
from ottla.client.kafka.sockets.network import Network
from ottla.client.kafka.sockets.protection import Protection
from ottla.client.security.security import PLAINTEXT, Security
from ottla_core.clock import SystemClock

VERSION: Final = "0.2.0"
"""The version of ottla, which brokers get in ApiVersions (KIP-511). It costs 20 ms to look it up among the installed
packages."""


class KafkaTransport:
    """Makes a connection to an address (host:port). Never blocks.

    The files of TLS are read once, by the constructor, which raises ConfigError if they can't be used.
    """

    def __init__(self, client_id: str, security: Security = PLAINTEXT) -> None:
        self.security: Final = security
        tls = None if security.tls is None else security.tls.context()
        self._network: Final = Network(client_id, VERSION, SystemClock(), Protection(tls, security.login))

    def __call__(self, address: str) -> KafkaPeer:
        return KafkaPeer(Address(address, self._network))
