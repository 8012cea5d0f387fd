"""Calls to the coordinator that owns the shard of a group or of a transactional id."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Final, TypeVar

from google.protobuf.message import Message

from ottla_broker.kafka.backend import Backend
from ottla_core.errors import COORDINATOR_MOVES, ErrorCode, OttlaError
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

RequestT = TypeVar("RequestT", bound=Message)
Response = TypeVar("Response", bound=Message)

CALL_S: Final = 10.0
"""The time limit for calls that don't wait for members. It is above the time that a coordinator gives an append."""

_HAND_OVER_S: Final = 3.0
_PAUSE_S: Final = 0.05


async def call_owner(
    backend: Backend,
    kind: str,
    key: str,
    method: Method[RequestT, Response],
    request: RequestT,
    limit_s: float,
    *,
    repeats: Set[int] = COORDINATOR_MOVES,
) -> Response:
    """Return the response of the coordinator of the key's shard, with the error that it may carry.

    While a shard moves from one coordinator to another, the request is repeated for a moment after an error in
    `repeats`. A client could do no better, because to the client this broker is the coordinator, before and after.
    Either the request was not carried out, or a repeat changes nothing, because it says what the result is to be. After
    COORDINATOR_NOT_AVAILABLE it may have been carried out. Raises COORDINATOR_NOT_AVAILABLE.
    """
    loop = asyncio.get_running_loop()
    patient_until = loop.time() + _HAND_OVER_S
    while True:
        try:
            owner = backend.coordinators.owner(kind, key)
            response = await backend.coordinators.ask(owner, method, request, limit_s)
            error: Error = response.error  # type: ignore[attr-defined]  # every response has one: tests/architecture
            if error.code not in repeats or loop.time() >= patient_until:
                return response
        except OttlaError as error:
            if error.code not in repeats or loop.time() >= patient_until:
                raise
        await asyncio.sleep(_PAUSE_S)


async def list_all(
    backend: Backend, kind: str, method: Method[RequestT, Response], request: RequestT
) -> tuple[int, list[Response]]:
    """Return the coordinators' responses to a listing, and an error code if a shard that the request names is missing.

    A coordinator lists the shards that it serves at that moment. While a shard moves from one to another, they are
    asked again, for a moment.
    """
    named = set(request.shards.numbers)  # type: ignore[attr-defined]  # every request of a listing names shards
    loop = asyncio.get_running_loop()
    patient_until = loop.time() + _HAND_OVER_S
    while True:
        code, responses = await _list_once(backend, kind, method, request)
        shards = [response.shards for response in responses]  # type: ignore[attr-defined]  # as above
        listed = {number for of_response in shards for number in of_response.numbers}
        if not code and not named <= listed:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if code not in COORDINATOR_MOVES or loop.time() >= patient_until:
            return code, responses
        await asyncio.sleep(_PAUSE_S)


async def _list_once(
    backend: Backend, kind: str, method: Method[RequestT, Response], request: RequestT
) -> tuple[int, list[Response]]:
    """Return the responses of all coordinators of a kind, and the code of the first error."""
    coordinators = backend.coordinators.all_of(kind)
    gathered = await asyncio.gather(
        *(backend.coordinators.ask(coordinator, method, request, CALL_S) for coordinator in coordinators),
        return_exceptions=True,
    )
    code, responses = 0, list[Response]()
    for response in gathered:
        if isinstance(response, OttlaError):
            code = code or response.code
        elif isinstance(response, BaseException):
            raise response
        else:
            error: Error = response.error  # type: ignore[attr-defined]  # as above
            code = code or error.code
            responses.append(response)
    return code, responses
