"""The broker's way to the coordinators: the present owner of a group's or a transactional id's shard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Coordinator
from ottla_core.errors import UNANSWERED, ErrorCode, OttlaError
from ottla_core.routing import GROUP, TXN
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.peers import Peers
from ottla_proto import group_pb2
from ottla_proto.contracts import Group, Method, Txn

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


_GATHERED: Final = {GROUP: Group.CALLS, TXN: Txn.CALLS}

_HEARTBEAT_LINGER_S: Final = 0.05
"""How long a heartbeat that reports nothing waits for others. It is little compared with the seconds between two
heartbeats of a member."""


class CoordinatorPeers:
    """A component that connects at the first call to a coordinator, and closes the connection when the coordinator is
    gone."""

    def __init__(self, metadata: MetadataFollower, tls: InternalTls | None = None) -> None:
        self._metadata: Final = metadata
        self._peers: Final = Peers(tls=tls)

    async def start(self) -> None:
        """Follow the metadata. Connections are made at the first calls."""
        self._metadata.on_change(self._on_image)

    async def stop(self) -> None:
        await self._peers.close()

    def owner(self, kind: str, key: str) -> Coordinator:
        """Return the owner of the shard of `key`. Raises COORDINATOR_NOT_AVAILABLE while it has none."""
        owner = self._metadata.image.owner_of_key(kind, key)
        if owner is None:
            raise not_available(kind)
        return owner

    def all_of(self, kind: str) -> list[Coordinator]:
        """Return every registered coordinator of that kind."""
        return [c for c in self._metadata.image.coordinators.values() if c.kind == kind]

    async def ask(
        self, coordinator: Coordinator, method: Method[Request, Response], request: Request, timeout: float
    ) -> Response:
        """Return the response as it is, with the error that it may carry.

        Raises COORDINATOR_NOT_AVAILABLE if none has come. Clients then look for the coordinator and retry, as they do
        after Kafka's own timeouts.
        """
        peer = self._peers.at(coordinator.address)
        with _as_not_available(coordinator.kind):
            calls = peer.gathered(_GATHERED[coordinator.kind])
            if not calls.carries(method):
                return await peer.ask(method, request, timeout=timeout)
            return await calls.ask(method, request, timeout=timeout, linger_s=_linger_s(request))

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if new.coordinators is not old.coordinators:
            self._peers.retain({coordinator.address for coordinator in new.coordinators.values()})


def _linger_s(request: Message) -> float:
    match request:
        case group_pb2.HeartbeatRequest():
            return _HEARTBEAT_LINGER_S
        case group_pb2.ConsumerHeartbeatRequest() if request.member_epoch > 0 and not request.HasField("owned"):
            return _HEARTBEAT_LINGER_S
    return 0.0


@contextmanager
def _as_not_available(kind: str) -> Iterator[None]:
    try:
        yield
    except OttlaError as error:
        if error.code in UNANSWERED:
            raise not_available(kind) from error
        raise


def not_available(kind: str) -> OttlaError:
    return OttlaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        f"no {kind}-coordinator is currently available for this request",
        hint=f"try again; if the error persists, start ottla-{kind}-coordinator",
    )
