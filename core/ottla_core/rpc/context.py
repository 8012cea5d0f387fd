"""The caller of a request, which travels as gRPC metadata with every call. Every call passes one authorize hook."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from ottla_core.security.principal import ANONYMOUS
from ottla_proto.operation import Operation

CLIENT_ID: Final = "x-ottla-client-id"

_request_ids = itertools.count(1)
_process: Final = f"{os.getpid():x}"


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
    """Principal and origin of one call. `listener` is "grpc" or the name of a Kafka listener."""

    principal: str = ANONYMOUS
    client_id: str = ""
    client_host: str = ""
    listener: str = "grpc"
    request_id: str = ""
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
        request_id=new_request_id(),
    )


def client_metadata(client_id: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of every call, which has the name of the client."""
    return ((CLIENT_ID, client_id),) if client_id else ()


def new_request_id() -> str:
    """Return an id that is unique in this process. An INTERNAL error names it, and the log has it."""
    return f"{_process}-{next(_request_ids):x}"
