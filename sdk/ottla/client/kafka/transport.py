"""Connections of one client over Kafka's protocol. They share one network thread, and the known names of topics."""

from __future__ import annotations

from functools import cache
from typing import Final

from ottla.client.door import KAFKA, Door
from ottla.client.kafka.peer import KafkaPeer
from ottla.client.kafka.sockets.address import Address
from ottla.client.kafka.sockets.network import Network
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla_core.clock import SystemClock


class KafkaTransport:
    """Makes a connection to an address (host:port). Never blocks."""

    door: Final[Door] = KAFKA

    def __init__(self, client_id: str) -> None:
        self._network: Final = Network(client_id, _software_version(), SystemClock())
        self._names: Final = TopicNames()

    def __call__(self, address: str) -> KafkaPeer:
        return KafkaPeer(Address(address, self._network), self._names)


@cache
def _software_version() -> str:
    """Return the version of ottla that is installed. A broker gets it in ApiVersions (KIP-511)."""
    from importlib.metadata import PackageNotFoundError, version  # this import takes 13 ms

    try:
        return version("ottla")
    except PackageNotFoundError:
        return "0"
