"""What only the controller may decide is passed on to it, within the time that the client gives.

A call ends with its connection: the task that waits for it is cancelled, and the call with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import words_of
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

Asked = TypeVar("Asked", bound=Message)
Reply = TypeVar("Reply", bound=Message)

UNTIMED_S: Final = 30.0
"""For requests that say no time."""

_LEAST_S: Final = 1.0
_MOST_S: Final = 60.0
_PAUSE_S: Final = 0.1
_KNOWN_S: Final = 1.0


def limit_s(timeout_ms: int) -> float:
    """The time for a request. 0 says in Kafka not to wait until the cluster knows of a change, which is made still."""
    return min(max(timeout_ms / 1000, _LEAST_S), _MOST_S)


async def forward(backend: Backend, method: Method[Asked, Reply], asked: Asked, *, limit_s: float) -> Reply:
    """The controller's reply. Where none is elected nothing was done, and it is asked again until the time is over.

    Raises what ControllerPeer.call raises.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + limit_s
    while True:
        try:
            return await backend.controller.call(method, asked, timeout=give_up_at - loop.time())
        except OttlaError as error:
            if error.code != ErrorCode.NOT_CONTROLLER or loop.time() + _PAUSE_S >= give_up_at:
                raise
        await asyncio.sleep(_PAUSE_S)


async def until_known(backend: Backend, condition: Callable[[ClusterImage], bool]) -> None:
    """Wait a moment until this broker knows, too, what was committed: the client is likely to ask for it next."""
    with contextlib.suppress(OttlaError):
        await backend.replicas.until(condition, timeout=_KNOWN_S)


def said(error: Error) -> dict[str, Any]:
    """The fields of an answer for what the controller says of one topic or resource."""
    return {"error_code": error.code, "error_message": error.message or None}


def refused(error: OttlaError) -> dict[str, Any]:
    """The same for what is refused here, or failed as a whole."""
    return {"error_code": int(error.code), "error_message": words_of(error)}


def check_once(names: Iterable[object]) -> None:
    """Raise INVALID_REQUEST where something is named twice: which of the two should hold?"""
    for name, count in Counter(names).items():
        if count > 1:
            shown = f"{name}"[:80]
            raise OttlaError(ErrorCode.INVALID_REQUEST, f"the request names {shown} twice", hint="name it once")
