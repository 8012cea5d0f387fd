"""The Kafka address that a client gets for a broker is that of the listener by which the client came, as in Kafka.

Each broker registers an address for each of its listeners. If the address is not configured, its host is that of the
broker's own contract, which clients may know under another address. So brokers on this very host are named by the
address that the client has reached, each with its own port. The protocol does not carry the name that was dialled. Only
the socket knows the address at which it arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.listener_settings import KafkaListener
from ottla_core.cluster.image import Broker
from ottla_core.host_port import HostPort


class KafkaAddresses:
    def __init__(self, host: str, advertised_host: str, listeners: Iterable[KafkaListener]) -> None:
        """Set where the broker's contract is served: at `host`, which others know as `advertised_host` unless that is
        empty."""
        self._advertised: Final = frozenset(entry.name for entry in listeners if entry.advertised is not None)
        self._own: Final = {
            listener.name: listener.advertised
            or HostPort(_reached(listener.bound, host, advertised_host), listener.bound.port)
            for listener in listeners
        }

    def own(self, ports: Mapping[str, int]) -> dict[str, str]:
        """Return the addresses that this broker registers, host:port by listener name. `ports` has the bound ports."""
        return {name: str(HostPort(at.host, at.port or ports[name])) for name, at in self._own.items()}

    def advertised(self, broker: Broker, caller: Caller) -> HostPort | None:
        """Return the address that the client gets for a broker, or None if the client can't reach it: it has no
        listener of that name, or none at all.

        A broker of a release that had only one listener has registered no names. Every client gets its address.
        """
        by_name = broker.kafka_listeners
        address = by_name.get(caller.listener, "") if by_name else broker.kafka_address
        if not address:
            return None
        host, port = HostPort.parse(address)
        own = self._own.get(caller.listener)
        if caller.dialled_host and caller.listener not in self._advertised and own is not None and host == own.host:
            host = caller.dialled_host
        return HostPort(host, port)


def controller_for(node_id: int, reported: Iterable[int]) -> int:
    """Return the broker that is reported as the controller: preferably this one, as any broker forwards its requests.

    It is one of the `reported` brokers, as clients look up its address among them; -1 if there is none yet.
    """
    brokers = set(reported)
    return node_id if node_id in brokers else min(brokers, default=-1)


def _reached(bound: HostPort, host: str, advertised_host: str) -> str:
    """Return the host of a listener that advertises none: that of the contract, unless the listener has an interface
    for itself."""
    return bound.host if not bound.is_every_interface and bound.host != host else advertised_host or host
