"""The texts of errors in responses."""

from __future__ import annotations

from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.status import error_message

_MOST_CHARACTERS: Final = 1_000


def text_of(error: OttlaError) -> str:
    return shortened(error_message(error).message)


def shortened(text: str) -> str:
    """Shorten a text to fit into a response, however long the names in the client's request are."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def unknown_topic_id() -> OttlaError:
    return OttlaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id", hint="look up the topic's id again")


def unknown_topic(name: str) -> OttlaError:
    return OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}", hint="create it first")
