"""The memory that the connections of a listener may hold, each and together, and how slow they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla_broker.kafka.network.pace import ConnectionPace
from ottla_broker.kafka.wire.frames import TOKEN_KEY
from ottla_core.kafka_formats.primitives import MalformedError

PRODUCE_KEY: Final = 0
FETCH_KEY: Final = 1

SMALL_BYTES: Final = 64 * 1024
"""The size of a small response, and of what a connection may hold without counting as a holder."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Sizes are in bytes and times in whole seconds, because they are checked once a second."""

    max_first: int = 512 * 1024
    """The largest frame before the connection's first request is done, and its login where one is expected. Until then
    the client is not known. For logins this is Kafka's sasl.server.max.receive.size."""
    max_produce: int = 100 * 1024 * 1024
    """The largest Produce frame: Kafka's socket.request.max.bytes."""
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
    """Kafka's connections.max.idle.ms."""
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

    def pace(self, seconds: int) -> ConnectionPace:
        return ConnectionPace(self.min_bytes_per_s * seconds, seconds)

    def check_size(self, key: int, size_bytes: int, *, is_known: bool) -> None:
        """Raise MalformedError for a frame of that API that is longer than allowed, or shorter than its header.

        `is_known` says that a request of the connection has been done before, and its login.
        """
        if size_bytes >> 16 == _TLS_RECORD:
            raise MalformedError(
                "the client speaks TLS, and this listener does not; check that the client's security.protocol is that "
                "of this listener"
            )
        limit = self.max_produce if key == PRODUCE_KEY else self.max_control
        if not is_known:
            limit = min(limit, self.max_first)
        least = 0 if key == TOKEN_KEY else _HEADER_BYTES
        if not least <= size_bytes <= limit:
            what = "of a login" if key == TOKEN_KEY else f"for API {key}"
            first = "" if is_known else " before the first request is done, and the login where one is due"
            raise MalformedError(
                f"a frame of {size_bytes} bytes {what} is not accepted: {least} to {limit} bytes are "
                f"allowed{first}; check that the client speaks the Kafka protocol, without TLS"
            )


_TLS_RECORD: Final = 0x1603
"""The first two bytes of a client's TLS. As a size they are more than any limit."""
_HEADER_BYTES: Final = 10  # key, version, correlation id, length of the client id
