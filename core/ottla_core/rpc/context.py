"""The caller of a request: travels as gRPC metadata with every call, and every call passes one authorize hook."""

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
        """It is held no longer, though it is not answered yet: others may be read in its place."""
        ...


class _NotCounted:
    def let_go(self) -> None: ...


NOT_COUNTED: Final[InFlight] = _NotCounted()


class Session(Protocol):
    """What a method keeps of the stream that it serves."""

    def end(self) -> None: ...


class StreamScope:
    """As long as one stream is served: its session, of which it has one at a time."""

    def __init__(self) -> None:
        self.session: Session | None = None

    def begin(self, session: Session | None) -> None:
        """Another one before ends."""
        if self.session is not None and self.session is not session:
            self.session.end()
        self.session = session


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Principal and origin of one call. `listener` is "grpc" or the name of a Kafka listener.

    `dialled_host` is the name under which the client reached us: what a published port or a tunnel is called outside.
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
"""Raises OttlaError with an authorization code where the context may not do the operation on the resource."""


def allow_all(context: RequestContext, operation: Operation, resource: str) -> None:
    """The hook until access control lists are served."""


def context_of(metadata: Iterable[tuple[str, str | bytes]], peer: str) -> RequestContext:
    """The context of a call, from its gRPC metadata and peer ("ipv4:127.0.0.1:50312")."""
    headers = {key: value for key, value in metadata if isinstance(value, str)}
    return RequestContext(
        client_id=headers.get(CLIENT_ID, ""),
        client_host=peer.partition(":")[2].rpartition(":")[0],
        request_id=headers.get(REQUEST_ID) or new_request_id(),
        traceparent=headers.get(TRACEPARENT, ""),
        dialled_host=headers.get(DIALLED, ""),
    )


def client_metadata(address: str, client_id: str) -> tuple[tuple[str, str], ...]:
    """The metadata of every call: the host that the client dialled (gRPC hides it from our handlers), and its name."""
    host = address.rpartition(":")[0]
    dialled = ((DIALLED, host),) if host.isascii() else ()  # gRPC carries ASCII; a name that is not can't be resolved
    return (*dialled, (CLIENT_ID, client_id)) if client_id else dialled


def new_request_id() -> str:
    """Unique in this process; what an INTERNAL error names and the log holds."""
    return f"{_process}-{next(_request_ids):x}"
