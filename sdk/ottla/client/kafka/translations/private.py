"""Methods that Kafka's messages can't express go unchanged, in the private API of ottla's brokers (docs/adr/0028)."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from ottla.client.kafka.apis import OTTLA_CALL, AnyApi
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_proto.contracts import Method

MOST_BYTES: Final = 16 * 1024 * 1024 - 64 * 1024
"""A broker ends the connection if a frame has more than 16 MiB. The difference is room for the header and the other
fields."""


class PrivateTranslation:
    """Carries the request and the response of a method in their own encoding, to and from whichever service has the
    method."""

    def __init__(self, method: Method[Any, Any]) -> None:
        self.api: Final[AnyApi] = OTTLA_CALL._replace(call=f"{method.service}.{method.name}")
        self._method: Final = method

    def request(self, request: Message, terms: Terms) -> OttlaCallRequest:
        body = request.SerializeToString()
        if len(body) > MOST_BYTES:
            text = f"a {self._method.name} request of {len(body)} bytes is too large for Kafka's protocol"
            raise OttlaError(ErrorCode.MESSAGE_TOO_LARGE, text, hint=f"send at most {MOST_BYTES} bytes at once")
        return OttlaCallRequest(method=self._method.path, timeout_ms=terms.timeout_ms, body=body)

    def response(self, response: OttlaCallResponse, terms: Terms) -> Message:
        if response.error_code:
            error = error_of(response.error_code, response.error_message)
            return self._method.response(error=error)  # type: ignore[no-any-return]  # any method's
        return self._method.response.FromString(response.body)  # type: ignore[no-any-return]  # any method's
