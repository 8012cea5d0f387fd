"""Says who calls: the service that the certificate names, and what each call carries as gRPC metadata."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote, unquote

from ottla_core.host_port import HostPort
from ottla_core.rpc.service_access import Caller
from ottla_core.security.principal import ANONYMOUS
from ottla_core.security.service_identity import identity_of

CLIENT_ID: Final = "x-ottla-client-id"
PRINCIPAL: Final = "x-ottla-principal"
"""The principal of the Kafka client for which a broker calls, with percent signs for what is not ASCII."""

_URIS: Final = "peer_uri"
"""gRPC's name for the URIs of the certificate at the other end."""
_SAFE: Final = ":/@=, "
"""Characters of principals that metadata carries as they are."""

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
    """Principal and origin of one call. `listener` is "grpc" or the name of a Kafka listener.

    The principal is the client's if a broker calls for a client. Where certificates are not configured, `caller` is
    None, and a principal proves nothing.
    """

    principal: str = ANONYMOUS
    caller: Caller | None = None
    client_id: str = ""
    client_host: str = ""
    listener: str = "grpc"
    request_id: str = ""
    stream: StreamScope = field(default_factory=StreamScope, compare=False)


def context_of(
    metadata: Iterable[tuple[str, str | bytes]], peer: str, proven: Mapping[str, Sequence[bytes]] | None = None
) -> RequestContext:
    """Return the context of a call, from its gRPC metadata and peer ("ipv4:127.0.0.1:50312").

    `proven` is what gRPC says of the certificate at the other end. It is None where no certificates are configured.
    """
    headers = {key: value for key, value in metadata if isinstance(value, str)}
    forwarded = headers.get(PRINCIPAL)
    caller = None if proven is None else _caller(proven, forwards=forwarded is not None)
    identity = None if caller is None else caller.identity
    return RequestContext(
        principal=unquote(forwarded) if forwarded is not None else identity.principal if identity else ANONYMOUS,
        caller=caller,
        client_id=headers.get(CLIENT_ID, ""),
        client_host=address_of_peer(peer).host,
        request_id=new_request_id(),
    )


def address_of_peer(peer: str) -> HostPort:
    """Return the address of a gRPC peer ("ipv4:127.0.0.1:50312"). Brackets may be percent-encoded."""
    return HostPort.parse(unquote(peer).partition(":")[2])


def _caller(proven: Mapping[str, Sequence[bytes]], *, forwards: bool) -> Caller:
    return Caller(identity_of(uri.decode(errors="replace") for uri in proven.get(_URIS, ())), forwards)


def client_metadata(client_id: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of every call, which has the name of the client."""
    return ((CLIENT_ID, client_id),) if client_id else ()


def forwarding_metadata(principal: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call that a broker makes for a client."""
    return ((PRINCIPAL, quote(principal, safe=_SAFE)),)


def new_request_id() -> str:
    """Return an id that is unique in this process. An INTERNAL error names it, and the log has it."""
    return f"{_process}-{next(_request_ids):x}"
