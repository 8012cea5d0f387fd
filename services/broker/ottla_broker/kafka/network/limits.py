"""The memory that the connections of a listener may hold, each and together, and how slow they may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla_broker.kafka.network.pace import ConnectionPace
from ottla_broker.kafka.wire.frames import TOKEN_KEY
from ottla_core.configs.config_values import EffectiveConfigs
from ottla_core.configs.connection_limits import limits_by_address
from ottla_core.kafka_formats.primitives import MalformedError

PRODUCE_KEY: Final = 0
FETCH_KEY: Final = 1
NO_LIMIT: Final = 2**31 - 1

SMALL_BYTES: Final = 64 * 1024
"""The size of a small response, and of what a connection may hold without counting as a holder."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Sizes are in bytes and times in whole seconds, because they are checked once a second."""

    max_first: int = 512 * 1024
    """The largest frame before the connection's first request is done, and its login where one is expected. Until then
    the client is not known. For logins this is Kafka's sasl.server.max.receive.size."""
    max_produce: int = 100 * 1024 * 1024
    """The largest Produce frame, which also bounds all other frames: Kafka's socket.request.max.bytes."""
    max_control: int = 16 * 1024 * 1024
    """The largest frame of any other API. Ten thousand topics take 2.4 MB with eight configs each, or with the longest
    names. The memory of decoded arrays is bounded by the number of their elements, in `wire.Reader`."""
    max_waiting: int = 256 * 1024
    """How many bytes a connection reads ahead while an earlier request has to end first. Then reading pauses."""
    max_open: int = 64
    """The most produces of a connection that are appended and not yet acknowledged."""
    max_held: int = 128 * 1024 * 1024
    """The bytes of all connections: received parts of frames, requests being handled, and responses that clients have
    not taken yet (`budget.Budget` shares it out)."""
    max_connections: int = 10_000
    """The most connections. Kafka's max.connections can only lower it."""
    max_of_host: int = NO_LIMIT
    """The most connections from one address: Kafka's max.connections.per.ip."""
    max_of_hosts: Mapping[str, int] = field(default_factory=dict)
    """Other limits for some addresses: Kafka's max.connections.per.ip.overrides."""
    login_s: int = 30
    """The time in which a client has to log in, where this is expected: as long as Kafka's clients wait for it
    (socket.connection.setup.timeout.max.ms)."""
    handshake_s: int = 30
    """The time in which a TLS handshake has to end."""
    max_handshakes: int = 1_000
    """How many TLS handshakes of a port may be under way. Each takes 19 KB, and at most about 100 KB."""
    max_handshake_bytes: int = 32 * 1024
    """How much a client may send in its TLS handshake: many times a chain of certificates."""
    idle_s: float = 600.0
    """The time without a request after which a connection ends: Kafka's connections.max.idle.ms."""
    min_bytes_per_s: int = 32 * 1024
    """How fast a frame has to come, and a client has to take a response. A producer's megabyte takes 32 s at this rate,
    and its client has given up after 30 (request.timeout.ms)."""
    frame_s: int = 10
    """The time in which a frame has to end, or to bring as much as `min_bytes_per_s` requires."""
    write_s: int = 30
    """The time in which a client has to take a response, or as much of it as `min_bytes_per_s` requires."""
    room_s: int = 10
    """How long a connection that holds more than a little may wait for more room. Then it is cut: otherwise connections
    whose unfinished frames fill the memory would wait for each other."""
    slice_s: float = 0.005
    """The time for one connection's requests before others have their turn."""

    def most_of(self, host: str) -> int:
        """Return how many connections an address may have."""
        return self.max_of_hosts.get(host, self.max_of_host)

    def pace(self, seconds: int) -> ConnectionPace:
        return ConnectionPace(self.min_bytes_per_s * seconds, seconds)

    def check_size(self, key: int | None, size_bytes: int, *, is_known: bool) -> None:
        """Raise MalformedError for a frame of that API that is longer than allowed, or shorter than its header.

        `key` is None until it has arrived. `is_known` says that the connection's first request is done, and its login
        if one is expected.
        """
        if size_bytes >> 16 == _TLS_RECORD:
            raise MalformedError(
                "the client speaks TLS, and this listener does not; check that the client's security.protocol is that "
                "of this listener"
            )
        limit = self.max_produce if key in (PRODUCE_KEY, None) else min(self.max_control, self.max_produce)
        if not is_known:
            limit = min(limit, self.max_first)
        least = 0 if key == TOKEN_KEY else _HEADER_BYTES
        if not least <= size_bytes <= limit:
            what = "" if key is None else " of a login" if key == TOKEN_KEY else f" for API {key}"
            first = "" if is_known else " before the first request is done, and the login where one is due"
            raise MalformedError(
                f"a frame of {size_bytes} bytes{what} is not accepted: {least} to {limit} bytes are "
                f"allowed{first}; check that the client speaks the Kafka protocol, without TLS"
            )


_LEAST_FRAME_BYTES: Final = 64 * 1024
"""Frames up to this size are accepted whatever the configs say, so that a request can still correct a config."""
_TLS_RECORD: Final = 0x1603
"""The first two bytes of a client's TLS. As a size they are more than any limit."""
_HEADER_BYTES: Final = 10  # key, version, correlation id, length of the client id


def configured(limits: ConnectionLimits, values: EffectiveConfigs) -> ConnectionLimits:
    """Return the limits as a broker's configs change them. Limits that protect its memory do not change."""
    idle_ms = values.integer("connections.max.idle.ms")
    return replace(
        limits,
        max_connections=min(limits.max_connections, values.integer("max.connections")),
        max_of_host=values.integer("max.connections.per.ip"),
        max_of_hosts=limits_by_address(values.text("max.connections.per.ip.overrides")),
        max_produce=max(_LEAST_FRAME_BYTES, min(limits.max_produce, values.integer("socket.request.max.bytes"))),
        idle_s=math.inf if idle_ms < 0 else idle_ms / 1000,
    )
