"""Decodes requests before their handlers, and encodes responses after them. Large ones are handled in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from ottla_broker.kafka.api import Api, Handler
from ottla_broker.kafka.authorization.needs import Need
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.error_codes import Errors
from ottla_broker.kafka.network.connection import HandlerResult
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire.frames import KafkaContext, Parts
from ottla_core.kafka.message import Message
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS
from ottla_proto.contracts import Method

LARGE_BYTES: Final = 4096
"""The body of a request to the codec counts as large from this size on. Smaller ones have at most two thousand
elements."""
LARGE_ELEMENTS: Final = 500
"""The elements of a response that is encoded in a thread: this many take some milliseconds."""

T = TypeVar("T")
RequestT = TypeVar("RequestT", bound=Message)

ControlHandler = Callable[[Backend, RequestT, KafkaContext], Message | Coroutine[Any, Any, Message | Parts]]


def decoded(
    decode: Callable[[KafkaContext], T], handle: Callable[[Backend, T, KafkaContext], HandlerResult], *, speed: int = 1
) -> Handler:
    """Return a handler of decoded requests. A request is decoded before anything is awaited, unless it is large.
    `speed` is how many times faster than the codec library `decode` is."""

    def begin(backend: Backend, context: KafkaContext) -> HandlerResult:
        if context.body.left > LARGE_BYTES * speed:
            return _in_a_thread(backend, context.kept())
        return handle(backend, decode(context), context)

    async def _in_a_thread(backend: Backend, context: KafkaContext) -> Parts | None:
        response = handle(backend, await backend.threads.work(decode, context), context)
        return await response if asyncio.iscoroutine(response) else response

    return begin


def control(
    request: type[RequestT],
    versions: tuple[int, int],
    handle: ControlHandler[RequestT],
    *,
    needs: frozenset[Need],
    errors: Errors,
    forwards: Method[Any, Any] | None = None,
    unstable: int | None = None,
    most_elements: int = MAX_ELEMENTS,
) -> Api:
    """Return an API whose messages are those of `ottla_core.kafka`. The response may also be encoded already."""
    handler = _handler(request, handle, errors)
    return Api(request, versions, handler, needs, errors, forwards, unstable=unstable, most_elements=most_elements)


def _handler(request_type: type[RequestT], handle: ControlHandler[RequestT], errors: Errors) -> Handler:
    def decode(context: KafkaContext) -> RequestT:
        return codec.decode(request_type, context.version, context.body)

    def begin(backend: Backend, message: RequestT, context: KafkaContext) -> HandlerResult:
        response, version = handle(backend, message, context), context.version
        encode = partial(codec.encode, version=version, errors=errors, private=context.caller.is_ottlas)
        if not isinstance(response, Message) or codec.has_more_elements(response, version, LARGE_ELEMENTS):
            return _encoded(backend, response, version, encode)
        return encode(response)

    return decoded(decode, begin)


async def _encoded(
    backend: Backend,
    response: Message | Coroutine[Any, Any, Message | Parts],
    version: int,
    encode: Callable[[Message], Parts],
) -> Parts:
    message = response if isinstance(response, Message) else await response
    if isinstance(message, list):
        return message
    if codec.has_more_elements(message, version, LARGE_ELEMENTS):
        return await backend.threads.work(encode, message)
    return encode(message)
