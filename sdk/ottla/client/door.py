"""The port of a broker that a transport needs, and what its protocol demands of the clients."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.machines.batches import NO_LIMIT


class Door(NamedTuple):
    """One of a broker's ports, as a transport sees it.

    `protocol` is its name in `diagnose`, `name` its name for users, and `port` its usual number. A request has at most
    `batches_per_partition` batches of one partition. With `one_fetch_at_a_time` a fetch session has only one open
    fetch.
    """

    protocol: str
    name: str
    port: int
    batches_per_partition: int
    one_fetch_at_a_time: bool

    @property
    def hint(self) -> str:
        """What to do if no broker answers, as the end of a sentence."""
        give = f"set bootstrap= (or OTTLA_BOOTSTRAP) to the {self.name} address of a running broker"
        return f"{give}, such as localhost:{self.port}"

    @property
    def wanted(self) -> str:
        """This port in words, for an error about another port."""
        return f"a broker's {self.name} port (usually {self.port})"


GRPC: Final = Door("grpc", "gRPC", 9650, NO_LIMIT, one_fetch_at_a_time=False)
KAFKA: Final = Door("kafka", "Kafka", 9092, 1, one_fetch_at_a_time=True)
"""Kafka's brokers reject a request with two batches of one partition, and a fetch session with two open requests."""


def door_of(transport: object) -> Door:
    """Return the door of a transport. It is gRPC's for any function that returns connections."""
    door: Door = getattr(transport, "door", GRPC)
    return door
