"""How a MirrorClient reaches mirrors: one at its gRPC address, or those that brokers know and forward to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.security.security import Security
from ottla.client.settings import bootstrap_addresses
from ottla.client.transport import Transport
from ottla.errors import ErrorCode, OttlaError, config_error, error_from_code, from_core
from ottla_proto.contracts import Method

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
    return ToMirror(address, client_id)


class ToMirror:
    """The connection to one mirror, as services have it: it needs gRPC, and knows nothing of brokers."""

    def __init__(self, address: str, client_id: str) -> None:
        try:
            from ottla_core.rpc.client import Peer
        except ModuleNotFoundError as missing:
            raise config_error(
                f"a connection to a mirror's own address needs {missing.name}, which is not installed",
                hint="run `pip install 'ottla[server]'`, or give addresses of brokers, which need none",
            ) from missing
        self._address: Final = address
        self._peer: Final = Peer(address, client_id=client_id)

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        try:
            return self._peer.call(method, request, timeout=timeout)
        except OttlaError as error:
            if error.code != ErrorCode.NETWORK_EXCEPTION:
                raise from_core(error) from None
            raise error_from_code(
                error.code,
                f"no mirror answers at {self._address}",
                hint="start one with `ottla up --mirror FILE`, or check the address (--mirror or OTTLA_MIRROR)",
            ) from error

    def close(self) -> None:
        self._peer.close()


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
        return self._cluster.call(address, method, request, timeout=max(0.001, until - self._cluster.clock.monotonic()))

    def close(self) -> None:
        self._cluster.close()
