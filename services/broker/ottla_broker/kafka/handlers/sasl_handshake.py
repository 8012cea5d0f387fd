"""SaslHandshake (key 17), versions 0 to 1: a client names the mechanism by which it logs in (KIP-43).

After v0 the messages of the mechanism come in frames without headers, and after v1 in SaslAuthenticate (KIP-152). Where
no login is expected, or the client is logged in, the response is ILLEGAL_SASL_STATE, and the connection goes on.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import NOTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.logins import after_failure
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import SaslHandshakeRequest, SaslHandshakeResponse
from ottla_core.security.login import Login


def handle(
    backend: Backend, request: SaslHandshakeRequest, context: KafkaContext
) -> SaslHandshakeResponse | Coroutine[Any, Any, SaslHandshakeResponse]:
    """Respond at once if the mechanism is chosen: the next frame is read by its choice."""
    login = context.caller.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    try:
        login.choose(request.mechanism, context.version)
    except OttlaError as error:
        return _failed(login, error.code)
    return SaslHandshakeResponse(mechanisms=login.mechanisms)


async def _failed(login: Login, code: int) -> SaslHandshakeResponse:
    await after_failure(login)
    named = login.mechanisms if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM else []
    return SaslHandshakeResponse(error_code=code, mechanisms=named)


API: Final = control(
    SaslHandshakeRequest,
    (0, 1),
    handle,
    needs=NOTHING,
    errors=error_codes.Errors(
        "SaslHandshakeResponse; SaslServerAuthenticator, handleHandshakeRequest",
        frozenset({ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE}),
    ),
)
