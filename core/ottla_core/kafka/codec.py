"""Messages are read from bytes and written to bytes here.

The functions that do it are generated when a version of a message is used for the first time, which takes some
milliseconds, and are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from ottla_core.kafka.decoder_source import DecoderSource
from ottla_core.kafka.encoder_source import EncoderSource
from ottla_core.kafka.message import Message
from ottla_core.kafka.runtime import UnencodableError, ends_early
from ottla_core.kafka.schema import extended_schema_of, schema_of
from ottla_core.kafka_formats.primitives import MalformedError

M = TypeVar("M", bound=Message)


def decode(message_type: type[M], data: bytes, version: int) -> M:
    """Return the message in `data`. Raises MalformedError. Bytes behind the message are ignored, as Kafka does it."""
    return decode_at(message_type, data, version, 0)[0]


def decode_at(message_type: type[M], data: bytes, version: int, at: int) -> tuple[M, int]:
    """Return the message that begins at `at`, and the position behind it. Raises MalformedError."""
    try:
        try:
            message, end = _decoder(message_type, version)(data, at)  # type: ignore[arg-type]  # classes are hashable
        except (struct.error, IndexError):
            raise ends_early() from None
        except UnicodeDecodeError:
            raise MalformedError("a string is not valid UTF-8") from None
    except MalformedError as error:
        name = message_type.__name__
        raise MalformedError(f"the bytes are not a valid {name} of version {version}: {error}") from None
    return message, end


def encode(message: Message, version: int, *, private: bool = False) -> bytes:
    """Return the bytes of a message, with its private fields only if they are wanted. Raises UnencodableError if a
    value does not fit its field or the version."""
    try:
        return _encoder(type(message), version, private)(message)  # type: ignore[arg-type]  # classes are hashable
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError, UnencodableError) as error:
        name = type(message).__name__
        raise UnencodableError(f"{name} can't be encoded in version {version}: {error}") from error


@cache
def _decoder(message_type: type[M], version: int) -> Callable[[bytes, int], tuple[M, int]]:
    schema = extended_schema_of(message_type.__name__)
    return DecoderSource(schema, version, message_type).function("decode")


@cache
def _encoder(message_type: type[M], version: int, private: bool) -> Callable[[M], bytes]:
    kafkas, extended = schema_of(message_type.__name__), extended_schema_of(message_type.__name__)
    if private and extended is kafkas:
        # Most messages have no private fields, so one encoder serves all clients.
        return _encoder(message_type, version, False)  # type: ignore[arg-type]  # classes are hashable
    return EncoderSource(extended if private else kafkas, version).function("encode")
