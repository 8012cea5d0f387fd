"""An error in a response of Kafka's, as the contracts have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.errors import ErrorCode
from ottla_proto.common_pb2 import Error

_OF_REQUESTS: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


def error_of(code: int, message: str | None = None) -> Error:
    """Return the error, which is none if its code is 0."""
    return Error(code=code, message=message or "")


def error_of_all(errors: Iterable[Error]) -> Error:
    """Return the error of a request that no controller has answered.

    Most of Kafka's responses have no room for it, and carry it in each of their parts.
    """
    found = list(errors)
    codes = {error.code for error in found}
    return found[0] if len(codes) == 1 and codes <= _OF_REQUESTS else Error()
