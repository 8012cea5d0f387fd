"""Errors as Kafka's clients know them, where a version of an API knows fewer than we do."""

from __future__ import annotations

from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.status import error_message

_MOST_CHARACTERS: Final = 1_000
_FETCHED: Final[dict[int, int]] = {ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.CORRUPT_MESSAGE}
"""For a batch that no response can hold. No version of Fetch answers the former; the latter Kafka's consumers raise to
their application, which may seek to what lies behind."""
_BY_NAME: Final[dict[int, int]] = {ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def code_by_name(error: OttlaError) -> int:
    """The code for a request that names topics by their names: there is no unknown id in it."""
    return _BY_NAME.get(error.code, error.code)


def code_of_fetch(error: OttlaError, *, by_id: bool) -> int:
    """The code of one partition of a Fetch response, for a request that names topics by their ids or by their names."""
    code = _FETCHED.get(error.code, error.code)
    return code if by_id else _BY_NAME.get(code, code)


def text_of(error: OttlaError) -> str:
    return shortened(error_message(error).message)


def shortened(text: str) -> str:
    """What fits into a response, however long the names are that the client has come up with."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def unknown_topic(name: str) -> OttlaError:
    return OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}", hint="create it first")
