"""Calling a contract from threads, without an event loop. Calls need a deadline."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from ottla_core.errors import ErrorCode
from ottla_core.rpc.context import client_metadata
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.status import SHARED_CHANNEL_OPTIONS, TransportError, raise_error, transport_error
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class HasError(Protocol):
    @property
    def error(self) -> Error: ...


class Peer:
    """One address. It connects at the first use, and again by itself when a connection was lost.

    The peers of one address share a connection. With `tls` they share it as long as they share the certificate, and a
    peer keeps the certificate that it began with.
    """

    def __init__(self, address: str, *, client_id: str = "", tls: InternalTls | None = None) -> None:
        self.address: Final = address
        self._metadata: Final = client_metadata(client_id)
        self._channel: Final[Any] = (
            grpc.insecure_channel(address, options=SHARED_CHANNEL_OPTIONS)
            if tls is None
            else grpc.secure_channel(address, tls.recent().channel_credentials, options=SHARED_CHANNEL_OPTIONS)
        )
        self._calls: Final[dict[str, Any]] = {}

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Return the response. Raises TransportError, or the OttlaError that the response carries."""
        response = self.ask(method, request, timeout=timeout)
        raise_error(response.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
        return response

    def ask(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Return the response as it is, with the error that it may carry. Raises TransportError."""
        call = self._calls.get(method.path)
        if call is None:
            call = self._channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            self._calls[method.path] = call
        try:
            response: Response = call(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise transport_error(error, self.address, method.name) from None
        except ValueError:  # gRPC raises this for a call on a channel that another thread has just closed
            message = f"{method.name} at {self.address}: the connection was closed"
            raise TransportError(ErrorCode.NETWORK_EXCEPTION, message) from None
        return response

    def close(self) -> None:
        self._channel.close()
