"""How a MirrorClient reaches mirrors: one at its gRPC address, or those that brokers know and forward to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from google.protobuf.message import Message

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.private_call import private_call
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.security.security import Security
from ottla.client.security.tls import Tls
from ottla.client.settings import bootstrap_addresses
from ottla.client.transport import Transport
from ottla.errors import ErrorCode, OttlaError, config_error, error_from_code, from_core
from ottla_core.security.service_identity import Role
from ottla_proto.contracts import Method

if TYPE_CHECKING:
    from ottla_core.rpc.internal_tls import InternalTls

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Channel(Protocol):
    """The way to a mirror."""

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Make a call, once. Raises OttlaError, also the one in the response."""
        ...

    def close(self) -> None: ...


def channel_to(
    address: str | None, bootstrap: str | Sequence[str] | None, client_id: str, security: Security
) -> Channel:
    """Return the channel to a mirror if its address is given, and to brokers otherwise."""
    if address is None:
        return ByBrokers(bootstrap_addresses(bootstrap), KafkaTransport(client_id, security))
    return ToMirror(address, client_id, security.tls)


class ToMirror:
    """The connection to one mirror, as services have it: it needs gRPC, and knows nothing of brokers."""

    def __init__(self, address: str, client_id: str, tls: Tls | None = None) -> None:
        try:
            from ottla_core.rpc.client import Peer
        except ModuleNotFoundError as missing:
            raise config_error(
                f"a connection to a mirror's own address needs {missing.name}, which is not installed",
                hint="run `pip install 'ottla[server]'`, or give addresses of brokers, which need none",
            ) from missing
        self._address: Final = address
        self._peer: Final = Peer(address, client_id=client_id, tls=None if tls is None else _certificate(tls))

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        try:
            return self._peer.call(method, request, timeout=timeout)
        except OttlaError as error:
            # A hint means that a mirror is there, and that the certificates of the two sides do not fit.
            if error.code != ErrorCode.NETWORK_EXCEPTION or error.hint:
                raise from_core(error) from None
            raise error_from_code(
                error.code,
                f"no mirror answers at {self._address}",
                hint="start one with `ottla up --mirror FILE`, or check the address (--mirror or OTTLA_MIRROR)",
            ) from error

    def close(self) -> None:
        self._peer.close()


def _certificate(tls: Tls) -> InternalTls | None:
    """Return the certificate by which this program proves to a service that it is an operator's."""
    from ottla_core.rpc.internal_tls import internal_tls

    if tls.ca is None or tls.certificate is None:
        raise config_error(
            "a mirror's own port needs a certificate of the role admin, and an authority that the client trusts",
            hint="pass tls=ottla.Tls(ca=, certificate=, key=); `ottla ca issue admin NAME --dir DIR` writes the files",
        )
    key = tls.key or tls.certificate
    try:
        return internal_tls(PurePath(tls.certificate), PurePath(key), PurePath(tls.ca), role=Role.ADMIN)
    except OttlaError as error:
        raise config_error(error.message, hint=error.hint) from None


class ByBrokers:
    """Connections to the brokers of a cluster, over Kafka's protocol."""

    def __init__(self, bootstrap: Sequence[str], transport: Transport) -> None:
        self._cluster: Final = ClusterClient(bootstrap, transport)

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Find a broker that answers, and call that one: a call may move groups, so it is not sent to others, too."""
        until = self._cluster.clock.monotonic() + timeout
        brokers = self._cluster.fetch_metadata(timeout=timeout).brokers.values()
        address = next((broker.address for broker in brokers if not broker.fenced), None)
        if address is None:
            raise error_from_code(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster has no broker at the moment")
        asked = private_call(method, request, lambda response: response)
        return self._cluster.exchange(address, asked, timeout=max(0.001, until - self._cluster.clock.monotonic()))

    def close(self) -> None:
        self._cluster.close()
