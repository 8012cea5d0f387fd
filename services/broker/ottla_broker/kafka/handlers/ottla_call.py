"""OttlaCall (key 28532), version 0, is ottla's one private API: a method of a contract, called over Kafka's connection.

Only clients that call themselves "ottla" see it in ApiVersions, and it is served to no others (docs/adr/0028). The body
of the request is the method's own request. The body of the response is the method's own response, which also carries
the method's error. The error code of OttlaCall's response says why no method was called.
"""

from __future__ import annotations

import asyncio
from typing import Final

from google.protobuf.message import DecodeError

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import NOTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.private_methods import PRIVATE_METHODS, PrivateCall, PrivateMethod
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.rpc.status import error_message

_LEAST_S: Final = 0.001
_MOST_S: Final = 600.0


async def handle(backend: Backend, request: OttlaCallRequest, context: KafkaContext) -> OttlaCallResponse:
    try:
        called = _called(request)
        message = called.method.request.FromString(request.body)
    except OttlaError as error:
        return OttlaCallResponse(**error_fields(error))
    except DecodeError:
        text = f"the body is not a {called.method.name} request"
        return OttlaCallResponse(**error_fields(OttlaError(ErrorCode.INVALID_REQUEST, text)))
    limit_s = min(max(request.timeout_ms / 1000, _LEAST_S), _MOST_S)
    loop, budget = asyncio.get_running_loop(), context.caller.answers
    if wait_s := budget.wait_s(loop.time()):
        if wait_s > limit_s:
            return OttlaCallResponse(**error_fields(_throttled(wait_s)))
        await asyncio.sleep(wait_s)
    # Whatever the client claims, the request names the client that has sent it.
    if "client_id" in called.method.request.DESCRIPTOR.fields_by_name:
        message.client_id, message.client_host = context.client_id, context.caller.client_host
    del request  # a body may be large, and the method may wait for long
    try:
        for need in called.needs:
            need.check(context.access, backend.image, message)
        response = await called.serve(backend, message, PrivateCall(context.caller.principal, limit_s))
        if called.shows is not None and context.access.is_limited:
            await called.shows.hide(context.access, response)
    except OttlaError as error:
        response = called.method.response(error=error_message(error))
    body = response.SerializeToString()
    budget.pay(len(body), loop.time())
    return OttlaCallResponse(error_message=None, body=body)


def _throttled(wait_s: float) -> OttlaError:
    return OttlaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"private calls have had large answers on this connection, and the next one may begin in {wait_s:.1f} s",
        hint="ask less often, or allow the call more time",
    )


def _called(request: OttlaCallRequest) -> PrivateMethod:
    called = PRIVATE_METHODS.get(request.method)
    if called is None:
        text = f"{request.method[:80]!r} is not a method that clients may call here"
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, text, hint="check that client and broker have the same release")
    if len(request.body) > called.max_bytes:
        text = f"a {called.method.name} request of {len(request.body)} bytes is too large"
        raise OttlaError(ErrorCode.INVALID_REQUEST, text, hint=f"send at most {called.max_bytes} bytes")
    return called


API: Final = control(
    OttlaCallRequest,
    (0, 0),
    handle,
    # Each method has its own needs.
    needs=NOTHING,
    errors=error_codes.Errors("the private API; the errors of its methods are in their own responses"),
)
