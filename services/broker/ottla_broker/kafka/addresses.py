"""Which Kafka address a client is told for a broker.

Each broker registers one. Where nobody has configured it, its host is that of the broker's own contract, which clients
may know under another address: so brokers on this very host are told by the address that the client has reached, each
with its own port. The protocol does not carry the name that was dialled; only the socket knows where it arrived.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.cluster.image import Broker


class Endpoint(NamedTuple):
    host: str
    port: int


class KafkaAddresses:
    def __init__(self, host: str, advertised: str) -> None:
        """`advertised`: host:port as configured, empty where nothing is; `host`: where the contract is advertised."""
        self._host: Final = host
        self._advertised: Final = advertised

    def own(self, port: int) -> str:
        """What this broker registers."""
        return self._advertised or f"{self._host}:{port}"

    def told(self, broker: Broker, dialled_host: str) -> Endpoint | None:
        """None for a broker that has no Kafka listener."""
        host, _, port = broker.kafka_address.rpartition(":")
        if not host:
            return None
        if dialled_host and not self._advertised and host == self._host:
            host = dialled_host
        return Endpoint(host, int(port))
