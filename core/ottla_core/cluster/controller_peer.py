"""A service's connection to the active controller."""

from __future__ import annotations

from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla_core.cluster.follower import MetadataFollower
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.internal_tls import InternalTls
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class ControllerPeer:
    """A component that connects at the first call, and again when another controller is elected."""

    def __init__(self, metadata: MetadataFollower, tls: InternalTls | None = None) -> None:
        self._metadata = metadata
        self._tls: Final = tls
        self._peer: AioPeer | None = None

    async def start(self) -> None:
        """Do nothing: the first call connects."""

    async def stop(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout: float, principal: str = ""
    ) -> Response:
        """Return the response. Raises NOT_CONTROLLER while no controller is elected, TransportError, or the OttlaError
        that the response carries.

        `principal` is the client for which a broker calls, or empty.
        """
        controller = self._metadata.image.controller
        if controller is None:
            raise OttlaError(ErrorCode.NOT_CONTROLLER, "no controller is currently elected", hint="try again")
        peer = self._peer
        if peer is None or peer.address != controller.address:
            former, peer = peer, AioPeer(controller.address, tls=self._tls)
            self._peer = peer  # before the wait, so that calls in between use this one
            if former is not None:
                await former.close()
        return await peer.call(method, request, timeout=timeout, principal=principal)
