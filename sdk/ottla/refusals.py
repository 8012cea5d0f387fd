"""What a producer says when it can't do what it is asked: which record, why, and what to do."""

from __future__ import annotations

from ottla.errors import (
    BufferFullError,
    ConfigError,
    ErrorCode,
    OttlaError,
    SerializationError,
    error_from_code,
)


def not_serialized(error: Exception, topic: str, key: object) -> SerializationError:
    """A serializer raised, or gave something else than bytes."""
    record = f"a record to {topic}" if key is None else f"the record to {topic} with the key {key!r:.60}"
    if isinstance(error, SerializationError):
        return SerializationError(f"{record} was not sent: {error.message}", hint=error.hint, topic=topic)
    words = f"{record} was not sent: its serializer raised {type(error).__name__}: {error}"
    return SerializationError(words, hint="see the cause", topic=topic)


def no_timestamp(given: object) -> ConfigError:
    """Something else than milliseconds was given."""
    return ConfigError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp={given!r} is no timestamp",
        hint="give milliseconds since 1970, such as int(moment.timestamp() * 1000)",
    )


def buffer_full(buffer_bytes: int, waited_s: float) -> BufferFullError:
    """There was no room for a record for as long as it may wait."""
    return BufferFullError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"the buffer of {buffer_bytes} bytes stayed full for max_block={waited_s:g} s; the record was not sent",
        hint="send more slowly, raise buffer_memory, or see why the brokers don't keep up",
    )


def not_flushed(batches: int) -> OttlaError:
    """The time for a flush is over."""
    return error_from_code(
        ErrorCode.REQUEST_TIMED_OUT,
        f"{batches} batches have no outcome yet",
        hint="they are tried until delivery_timeout; wait longer or see why the brokers don't answer",
    )
