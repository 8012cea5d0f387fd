"""Records that could not be handled go to a topic of their own, with headers that say where they come from."""

from __future__ import annotations

from typing import Final

from ottla.consumer.completed_fetch import UnreadableBatch
from ottla.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_core.records.record import Header, RawRecord

ORIGIN: Final = {
    "ottla.origin.topic": "topic that the record was read from",
    "ottla.origin.partition": "partition that the record was read from, as a decimal number",
    "ottla.origin.offset": "offset of the record in that partition",
    "ottla.origin.timestamp": "timestamp of the record, in ms since the epoch; -1 if it has none",
    "ottla.error.class": "module and class of the exception that ended the last attempt",
    "ottla.error.message": "message of that exception, up to 1000 characters",
    "ottla.attempts": "number of attempts to handle the record",
    "ottla.group": "consumer group of the handler",
}
"""Header names and meanings, all text in UTF-8; they come after the record's own headers."""

_MESSAGE_CHARACTERS: Final = 1000


def dead_letter_headers(
    partition: TopicPartition, raw: RawRecord | UnreadableBatch, error: BaseException, attempts: int, group: str
) -> list[Header]:
    """Return the record's own headers and those of ORIGIN. If a name occurs twice, the last one is the newest."""
    kind = type(error)
    values = (
        partition.topic,
        str(partition.partition),
        str(raw[0]),
        str(raw[1]),
        f"{kind.__module__}.{kind.__qualname__}",
        message_of(error)[:_MESSAGE_CHARACTERS],
        str(attempts),
        group,
    )
    origin = zip(ORIGIN, (value.encode("utf-8", "replace") for value in values), strict=True)
    return [*raw[4], *origin]


def message_of(error: BaseException) -> str:
    """Return an error's message; never raises, whatever its class does."""
    try:
        return error.message if isinstance(error, OttlaError) else str(error)
    except Exception:
        return ""
