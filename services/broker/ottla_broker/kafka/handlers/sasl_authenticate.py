"""SaslAuthenticate (key 36), versions 0 to 2: a message of the mechanism that SaslHandshake has named (KIP-152).

v1 adds the time for which a login is valid (KIP-368), which has no limit here. v2 differs in encoding only.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import NOTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.logins import respond
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

_NO_LOGIN: Final = OttlaError(ErrorCode.ILLEGAL_SASL_STATE, "this listener expects no login")


async def handle(backend: Backend, request: SaslAuthenticateRequest, context: KafkaContext) -> SaslAuthenticateResponse:
    login = context.caller.login
    if login is None:
        return _failed(_NO_LOGIN)
    try:
        auth_bytes = await respond(login, request.auth_bytes, backend.threads)
    except OttlaError as error:
        return _failed(error)
    return SaslAuthenticateResponse(error_message=None, auth_bytes=auth_bytes)


def _failed(error: OttlaError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)


API: Final = control(
    SaslAuthenticateRequest,
    (0, 2),
    handle,
    needs=NOTHING,
    errors=error_codes.Errors(
        "SaslAuthenticateResponse; SaslServerAuthenticator, handleSaslToken; KIP-152",
        frozenset({ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE}),
    ),
)
