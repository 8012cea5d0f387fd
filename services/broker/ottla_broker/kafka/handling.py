"""Requests are decoded before their handlers, and responses encoded after them: in a thread where they are large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ottla_broker.kafka import codec
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.frames import KafkaContext, Parts
from ottla_broker.kafka.network.connection import HandlerResult
from ottla_core.kafka.message import Message

LARGE_BYTES: Final = 4096
"""Body of a request to the codec that counts as large: smaller ones have at most two thousand elements."""
LARGE_ELEMENTS: Final = 500
"""Elements of a response: this many are encoded in some milliseconds."""

T = TypeVar("T")
RequestT = TypeVar("RequestT", bound=Message)

Handler = Callable[[Backend, KafkaContext], HandlerResult]
ControlHandler = Callable[[Backend, RequestT, KafkaContext], Message | Coroutine[Any, Any, Message | Parts]]


def decoded(
    decode: Callable[[KafkaContext], T], handle: Callable[[Backend, T, KafkaContext], HandlerResult], *, speed: int = 1
) -> Handler:
    """A handler of decoded requests: one is decoded before anything is awaited, unless it is large. `speed`: how
    many times faster than the codec library `decode` is."""

    def begin(backend: Backend, context: KafkaContext) -> HandlerResult:
        if context.body.left > LARGE_BYTES * speed:
            return _in_a_thread(backend, context.kept())
        return handle(backend, decode(context), context)

    async def _in_a_thread(backend: Backend, context: KafkaContext) -> Parts | None:
        response = handle(backend, await backend.threads.work(decode, context), context)
        return await response if asyncio.iscoroutine(response) else response

    return begin


def control(request_type: type[RequestT], handle: ControlHandler[RequestT]) -> Handler:
    """A handler for a message of `ottla_core.kafka`; its response is one too, or encoded already."""

    def decode(context: KafkaContext) -> RequestT:
        return codec.decode(request_type, context.version, context.body)

    def begin(backend: Backend, message: RequestT, context: KafkaContext) -> HandlerResult:
        response, version = handle(backend, message, context), context.version
        if not isinstance(response, Message) or codec.has_more_elements(response, version, LARGE_ELEMENTS):
            return _encoded(backend, response, version)
        return codec.encode(response, version)

    return decoded(decode, begin)


async def _encoded(backend: Backend, response: Message | Coroutine[Any, Any, Message | Parts], version: int) -> Parts:
    message = response if isinstance(response, Message) else await response
    if isinstance(message, list):
        return message
    if codec.has_more_elements(message, version, LARGE_ELEMENTS):
        return await backend.threads.work(codec.encode, message, version)
    return codec.encode(message, version)
