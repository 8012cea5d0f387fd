"""Translates errors in Kafka's responses into those of the contracts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.errors import ErrorCode
from ottla_proto.common_pb2 import Error

_OF_REQUESTS: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
)


def error_of(code: int, message: str | None = None) -> Error:
    """Return the error with this code. The code 0 means that there is none."""
    return Error(code=code, message=message or "")


def error_of_all(errors: Iterable[Error]) -> Error:
    """Return the error of a request that no controller has answered.

    Most of Kafka's responses have no field for it, and repeat it in each of their parts.
    """
    found = list(errors)
    codes = {error.code for error in found}
    return found[0] if len(codes) == 1 and codes <= _OF_REQUESTS else Error()
