"""Forwards requests that only the controller may decide, within the client's timeout.

A call ends with its connection: the task that waits for it is cancelled, and the call with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened, text_of
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

RequestT = TypeVar("RequestT", bound=Message)
Response = TypeVar("Response", bound=Message)
Name = TypeVar("Name", bound=Hashable)
A = TypeVar("A")
B = TypeVar("B")

UNTIMED_S: Final = 30.0
"""The time limit for requests that name none."""

_LEAST_S: Final = 1.0
_MOST_S: Final = 60.0
_PAUSE_S: Final = 0.1
_KNOWN_S: Final = 1.0


def limit_s(timeout_ms: int) -> float:
    """Return the time limit for a request. In Kafka, 0 means not to wait until the cluster knows of a change, which is
    made all the same."""
    return min(max(timeout_ms / 1000, _LEAST_S), _MOST_S)


async def forward(
    backend: Backend, method: Method[RequestT, Response], request: RequestT, *, principal: str, limit_s: float
) -> Response:
    """Return the controller's response. If no controller is elected, or it went away with the request, another is tried
    until the time is over. The controller's log names the principal of the client that has sent the request.

    A request that went away with its controller may have been carried out. Kafka's brokers repeat it all the same: a
    request says what the result is to be, so nothing is done twice. At worst the repeat gets errors for what the first
    try has done, such as TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS or ELECTION_NOT_NEEDED.

    Raises the OttlaError that the response carries. At the end of the time it raises NOT_CONTROLLER if nothing was
    done, and REQUEST_TIMED_OUT if the outcome is unknown. Clients try again after both.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + limit_s
    lost = False
    while True:
        try:
            return await _call(backend, method, request, principal, give_up_at - loop.time())
        except OttlaError as error:
            if error.code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION):
                raise
            lost |= error.code == ErrorCode.NETWORK_EXCEPTION
            if loop.time() + _PAUSE_S >= give_up_at:
                if lost:
                    raise _unknown_outcome(limit_s) from None
                raise
        await asyncio.sleep(_PAUSE_S)


async def _call(
    backend: Backend, method: Method[RequestT, Response], request: RequestT, principal: str, timeout: float
) -> Response:
    """Try once. The try counts as lost if another controller is elected first, because a stopped process never hangs
    up."""
    former = backend.image.controller
    call = asyncio.create_task(backend.controller.call(method, request, timeout=timeout, principal=principal))
    elected = asyncio.create_task(
        backend.metadata.wait_for(lambda image: image.controller not in (None, former), timeout)
    )
    try:
        await asyncio.wait({call, elected}, return_when=asyncio.FIRST_COMPLETED)
        if not call.done() and elected.exception() is None:
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, "another controller was elected before this one responded")
        return await call
    finally:
        call.cancel()
        elected.cancel()
        await asyncio.gather(call, elected, return_exceptions=True)


def _unknown_outcome(limit_s: float) -> OttlaError:
    return OttlaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"no controller responded within {limit_s:g} s; one may have carried out the request before it stopped",
        hint="check the current state or try again",
    )


async def translated(backend: Backend, translate: Callable[[A], B], elements: Iterable[A]) -> list[B]:
    """Return `[translate(each) for each in elements]`, computed beside the loop: each element may itself have thousands
    of elements, and no slice cuts through one. `translate` must not raise, and reads only what never changes."""
    return await backend.threads.work(lambda: [translate(element) for element in elements])


async def until_known(backend: Backend, condition: Callable[[ClusterImage], bool]) -> None:
    """Wait a moment until this broker knows, too, what was committed, because the client is likely to request it
    next."""
    with contextlib.suppress(OttlaError):
        await backend.replicas.until(condition, timeout=_KNOWN_S)


def reported_fields(error: Error) -> dict[str, Any]:
    """Return the fields of a response for the controller's error of one topic or resource."""
    return {"error_code": error.code, "error_message": shortened(error.message) or None}


def error_fields(error: OttlaError) -> dict[str, Any]:
    """Return the error fields of a request that this broker rejects, or that failed as a whole."""
    return {"error_code": int(error.code), "error_message": text_of(error)}


async def fields_by_name(errors: Mapping[Name, OttlaError]) -> dict[Name, dict[str, Any]]:
    return dict(zip(errors, await sliced(error_fields, errors.values()), strict=True))


async def named_twice(names: Iterable[Name]) -> dict[Name, OttlaError]:
    """Return an error for each name that is there twice, because it is not clear which of the two is meant. The others
    go on, as in Kafka."""
    counts: dict[Name, int] = defaultdict(int)

    def count(name: Name) -> None:
        counts[name] += 1

    await sliced(count, names)
    return ambiguous(counts)


def ambiguous(counts: Mapping[Name, int]) -> dict[Name, OttlaError]:
    """Return an error for each name that counts more than once."""
    twice = [name for name, count in counts.items() if count > 1]
    if not twice:
        return {}
    first, rest = f"{twice[0]}"[:80], len(twice) - 1
    text = f"the request names {first} twice" + (f", and {rest} others too" if rest else "")
    return dict.fromkeys(twice, OttlaError(ErrorCode.INVALID_REQUEST, text, hint="name each of them once"))
