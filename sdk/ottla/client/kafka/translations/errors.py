"""Translates errors in Kafka's responses into those of the contracts."""

from __future__ import annotations

from ottla_proto.common_pb2 import Error


def error_of(code: int, message: str | None = None) -> Error:
    """Return the error with this code. The code 0 means that there is none."""
    return Error(code=code, message=message or "")
