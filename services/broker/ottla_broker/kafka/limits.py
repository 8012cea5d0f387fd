"""What the connections of a listener may hold of this process, each and together, and for how long."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from ottla_core.primitives import MalformedError

PRODUCE_KEY: Final = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes."""

    max_produce: int = 100 * 1024 * 1024
    """Of one frame: Kafka's socket.request.max.bytes."""
    max_control: int = 16 * 1024 * 1024
    """Of a frame of any other API. Ten thousand topics with eight configs each take 2.4 MB, or with names of the
    greatest length; what arrays take once they are decoded is bounded by their elements, in `wire.Reader`."""
    max_waiting: int = 256 * 1024
    """Of a connection, read while an earlier request has to end first; beyond it reading pauses."""
    max_open: int = 64
    """Produces of a connection that are appended and not yet acknowledged."""
    max_held: int = 128 * 1024 * 1024
    """Of all connections: frames that still come, and answers that are not taken. What was on its way when it was
    reached comes on top."""
    max_connections: int = 10_000
    idle_s: float = 600.0
    """Kafka's connections.max.idle.ms."""
    frame_s: float = 30.0
    """For a frame to come whole; a large one has longer, at this rate:"""
    frame_bytes_per_s: int = 256 * 1024
    write_s: float = 30.0
    """For a client to take what it was answered."""

    def check_size(self, key: int, size_bytes: int) -> None:
        """Raise MalformedError for a frame of that API that is longer than allowed, or shorter than its header."""
        limit = self.max_produce if key == PRODUCE_KEY else self.max_control
        if not _HEADER_BYTES <= size_bytes <= limit:
            raise MalformedError(
                f"a frame of {size_bytes} bytes for API {key}, where {_HEADER_BYTES} to {limit} are taken; "
                "is this a client of Kafka's protocol, without TLS?"
            )

    def frame_limit_s(self, size_bytes: int) -> float:
        return self.frame_s + size_bytes / self.frame_bytes_per_s


_HEADER_BYTES: Final = 10  # key, version, correlation id, length of the client id


class Waiting(Protocol):
    """A connection that waits for room."""

    def on_room(self) -> None: ...


class Budget:
    """The bytes that all connections hold together, and the connections that wait for room, in the order of coming."""

    def __init__(self, max_bytes: int) -> None:
        self.held_bytes = 0
        self._max_bytes: Final = max_bytes
        self._waiting: Final[deque[Waiting]] = deque()

    @property
    def has_room(self) -> bool:
        return self.held_bytes < self._max_bytes

    def wait(self, connection: Waiting) -> None:
        """Have `on_room` called once there is room again."""
        self._waiting.append(connection)

    def change(self, size_bytes: int) -> None:
        """So many more bytes are held, or fewer."""
        self.held_bytes += size_bytes
        while size_bytes < 0 and self._waiting and self.has_room:
            self._waiting.popleft().on_room()
