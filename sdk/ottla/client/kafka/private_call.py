"""Calls that Kafka's messages can't express, in the private API of ottla's brokers (docs/adr/0028).

A broker passes the call on to the service that has the method. Kafka's brokers lack the API, so a call fails there with
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from ottla.client.kafka.apis import OTTLA_CALL
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")

MOST_BYTES: Final = 16 * 1024 * 1024 - 64 * 1024
"""A broker ends the connection if a frame has more than 16 MiB. The difference is room for the header and the other
fields."""


def private_call(method: Method[Request, Response], request: Request, read: Callable[[Response], T]) -> Exchange[T]:
    """Return the exchange that calls a method. `read` returns what a response without an error means."""

    def build(terms: Terms) -> OttlaCallRequest:
        body = request.SerializeToString()
        if len(body) > MOST_BYTES:
            text = f"a {method.name} request of {len(body)} bytes is too large for Kafka's protocol"
            raise OttlaError(ErrorCode.MESSAGE_TOO_LARGE, text, hint=f"send at most {MOST_BYTES} bytes at once")
        return OttlaCallRequest(method=method.path, timeout_ms=terms.timeout_ms, body=body)

    def meaning(response: OttlaCallResponse) -> T:
        try:
            message = method.response.FromString(bytes(response.body))
        except DecodeError as error:
            raise ValueError(str(error)) from error
        raise_in_band(message.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
        return read(message)

    api = OTTLA_CALL._replace(call=f"{method.service}.{method.name}")
    return Exchange(api, build, meaning, size_bytes=request.ByteSize())


def raise_in_band(error: Any) -> None:
    """Raise the error that a response, or a part of it, has, if it has one."""
    if error.code:
        raise error_from_code(error.code, error.message)
