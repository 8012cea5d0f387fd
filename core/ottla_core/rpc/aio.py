"""Calling a contract from an event loop: how services call each other.

A peer with a certificate looks for another one in its files when it makes a call or opens a stream. gRPC can't give
an open channel another certificate, so the next calls take another channel. Calls that are under way end on the former
channel. Only they hold it, and gRPC closes its connection after the last one.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from ottla_core.errors import ErrorCode
from ottla_core.rpc import transport
from ottla_core.rpc.aio_stream import AioFrameStream, check_cancelled
from ottla_core.rpc.call_stream import CallStream
from ottla_core.rpc.context import client_metadata, forwarding_metadata
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.status import TransportError, raise_error, transport_error
from ottla_proto.contracts import GatheredCalls, Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class AioPeer:
    """One address. It connects at the first use, and again by itself when the connection was lost."""

    def __init__(self, address: str, *, client_id: str = "", tls: InternalTls | None = None) -> None:
        self.address: Final = address
        self._metadata: Final = client_metadata(client_id)
        self._tls: Final = tls
        self._material = None if tls is None else tls.recent()
        self._channel = transport.open_channel(address, self._material)
        self._gathered: Final[dict[str, CallStream]] = {}

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout: float, principal: str = ""
    ) -> Response:
        """Return the response. Raises TransportError, or the OttlaError that the response carries.

        `principal` is the client for which a broker calls. It is empty for a call that a service makes for itself.
        """
        response = await self.ask(method, request, timeout=timeout, principal=principal)
        raise_error(response.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
        return response

    async def ask(
        self, method: Method[Request, Response], request: Request, *, timeout: float, principal: str = ""
    ) -> Response:
        """Return the response even if it carries an error, because some responses carry more than that. Raises
        TransportError."""
        metadata = (*self._metadata, *forwarding_metadata(principal)) if principal else self._metadata
        call = self._current_channel().unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            response: Response = await call(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise transport_error(error, self.address, method.name) from None
        except grpc.aio.UsageError:  # gRPC raises this for a call on a channel that has just been closed
            message = f"{method.name} at {self.address}: the connection was closed"
            raise TransportError(ErrorCode.NETWORK_EXCEPTION, message) from None
        except asyncio.CancelledError:
            check_cancelled(self.address, method.name)
            raise
        return response

    def open_stream(self, method: Method[Request, Response]) -> AioFrameStream[Request, Response]:
        return AioFrameStream(self._current_channel(), self.address, method, self._metadata)

    def gathered(self, calls: GatheredCalls) -> CallStream:
        """Return the stream of a contract's gathered calls. There is one, which is opened when it is used first."""
        stream = self._gathered.get(calls.path)
        if stream is None:
            stream = self._gathered[calls.path] = CallStream(self._current_channel, self.address, calls, self._metadata)
        return stream

    def _current_channel(self) -> transport.Channel:
        if self._tls is not None and (material := self._tls.recent()) is not self._material:
            self._material = material
            self._channel = transport.open_channel(self.address, material)
        return self._channel

    async def close(self) -> None:
        for stream in self._gathered.values():
            await stream.close()
        await self._channel.close()
