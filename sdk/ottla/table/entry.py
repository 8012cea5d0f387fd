"""What a table keeps of a record: the bytes of its value, which are deserialized when you look at it."""

from __future__ import annotations

from typing import Any, TypeAlias

from ottla.errors import OttlaError, SerializationError
from ottla.serdes.serdes import Deserializer

Entry: TypeAlias = bytes | tuple[Deserializer, bytes]
"""A value's bytes; with a deserializer, if the record's headers name another one than the table's."""


def read_value(topic: str, read: Deserializer, key: Any, entry: Entry | None) -> Any:
    """Return the value, None for no entry; `read` is the table's deserializer. Raises SerializationError."""
    if entry is None:
        return None
    try:
        return entry[0](entry[1]) if isinstance(entry, tuple) else read(entry)
    except Exception as error:
        message = error.message if isinstance(error, OttlaError) else str(error)
        raise SerializationError(
            f"the value of {key!r:.80} in the table {topic!r} can't be deserialized: {message}",
            hint="pass another deserializer as value=, or send a value that this one can read",
            topic=topic,
        ) from error
