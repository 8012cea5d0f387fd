"""What the protocol of a transport demands of the clients."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.machines.batches import NO_LIMIT


class Door(NamedTuple):
    """The rules for requests to a broker, on one of its ports.

    A request has at most `batches_per_partition` batches of one partition. With `one_fetch_at_a_time` a fetch session
    has only one open fetch.
    """

    batches_per_partition: int
    one_fetch_at_a_time: bool


GRPC: Final = Door(NO_LIMIT, one_fetch_at_a_time=False)
KAFKA: Final = Door(1, one_fetch_at_a_time=True)
"""Kafka's brokers reject a request with two batches of one partition, and a fetch session with two open requests."""


def door_of(transport: object) -> Door:
    """Return the door of a transport. It is gRPC's for any function that returns connections."""
    door: Door = getattr(transport, "door", GRPC)
    return door
