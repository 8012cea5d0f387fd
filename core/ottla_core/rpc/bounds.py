"""Limits of a request's size, because more would hold the loop for longer than one turn."""

from __future__ import annotations

from ottla_core.errors import ErrorCode, OttlaError


def check_few(count: int, name: str, most: int) -> None:
    """Raise INVALID_REQUEST for more elements than one turn of the loop has time for."""
    if count > most:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"a call may have at most {most} {name}, but this one has {count}",
            hint="split the call into several",
        )
