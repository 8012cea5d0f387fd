"""The caller of a request, which travels as gRPC metadata with every call. Every call passes one authorize hook."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from ottla_proto.contracts import Operation

CLIENT_ID: Final = "x-ottla-client-id"
DIALLED: Final = "x-ottla-dialled"
REQUEST_ID: Final = "x-ottla-request-id"
TRACEPARENT: Final = "traceparent"

_request_ids = itertools.count(1)
_process: Final = f"{os.getpid():x}"


class InFlight(Protocol):
    """A request as it is counted while it is open (`budget`)."""

    def let_go(self) -> None:
        """Note that the request is no longer held, though it is not answered yet, so that others may be read in its
        place."""
        ...


class _NotCounted:
    def let_go(self) -> None: ...


NOT_COUNTED: Final[InFlight] = _NotCounted()


class Session(Protocol):
    """What a method keeps of the stream that it serves."""

    def end(self) -> None: ...


class StreamScope:
    """The scope of a stream that is served. It has one session at a time."""

    def __init__(self) -> None:
        self.session: Session | None = None

    def begin(self, session: Session | None) -> None:
        """Begin a session. The previous one ends."""
        if self.session is not None and self.session is not session:
            self.session.end()
        self.session = session


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Principal and origin of one call. `listener` is "grpc" or the name of a Kafka listener.

    `dialled_host` is the name under which the client reached this process: the name that a published port or a tunnel
    has outside.
    """

    principal: str = "User:ANONYMOUS"
    client_id: str = ""
    client_host: str = ""
    listener: str = "grpc"
    request_id: str = ""
    traceparent: str = ""
    dialled_host: str = ""
    in_flight: InFlight = field(default=NOT_COUNTED, compare=False)
    stream: StreamScope = field(default_factory=StreamScope, compare=False)


Authorize = Callable[[RequestContext, Operation, str], None]
"""A function that raises OttlaError with an authorization code if the context may not do the operation on the
resource."""


def allow_all(context: RequestContext, operation: Operation, resource: str) -> None:
    """Allow everything. This is the hook until access control lists are served."""


def context_of(metadata: Iterable[tuple[str, str | bytes]], peer: str) -> RequestContext:
    """Return the context of a call, from its gRPC metadata and peer ("ipv4:127.0.0.1:50312")."""
    headers = {key: value for key, value in metadata if isinstance(value, str)}
    return RequestContext(
        client_id=headers.get(CLIENT_ID, ""),
        client_host=peer.partition(":")[2].rpartition(":")[0],
        request_id=headers.get(REQUEST_ID) or new_request_id(),
        traceparent=headers.get(TRACEPARENT, ""),
        dialled_host=headers.get(DIALLED, ""),
    )


def client_metadata(address: str, client_id: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of every call: the host that the client dialled (gRPC hides it from the server's handlers),
    and its name."""
    host = address.rpartition(":")[0]
    dialled = ((DIALLED, host),) if host.isascii() else ()  # gRPC carries ASCII; a name that is not can't be resolved
    return (*dialled, (CLIENT_ID, client_id)) if client_id else dialled


def new_request_id() -> str:
    """Return an id that is unique in this process. An INTERNAL error names it, and the log has it."""
    return f"{_process}-{next(_request_ids):x}"
