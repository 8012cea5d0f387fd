"""Control messages in the versions of one connection's client: `ottla_core.kafka` and what a broker adds to it.

A broker never sends an error code that a version lacks, and it has to know how large a message is before it works on
it. Both need a walk through a message's arrays. Its code is generated for each version, like the codec itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from ottla_broker.kafka.error_codes import Errors
from ottla_broker.kafka.wire.frames import Parts
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import Struct, schema_of
from ottla_core.kafka.source import Source
from ottla_core.kafka_formats.primitives import Reader

M = TypeVar("M", bound=Message)


def decode(request_type: type[M], version: int, body: Reader) -> M:
    """Return the request in `body`. Raises MalformedError."""
    message, size_bytes = codec.decode_at(request_type, bytes(body.data[body.at :]), version, 0)
    body.at += size_bytes
    return message


def encode(response: Message, version: int, errors: Errors, *, private: bool = False) -> Parts:
    """Return the body of a response, with no error code that this version lacks. Only clients of ottla get private
    fields."""
    _replacing(type(response).__name__, version)(response, errors.sent)
    return [codec.encode(response, version, private=private)]


def has_more_elements(message: Message, version: int, most: int) -> bool:
    """Return whether all arrays in the message together have more elements than `most`."""
    return _counting(type(message).__name__, version)(message, most) > most


@cache
def _counting(name: str, version: int) -> Callable[[Message, int], int]:
    """Return a function that counts elements, and stops soon after it has found more than its limit."""
    source = Source(schema_of(name), version)
    with source.block("def count(m, most):"):
        source.line("n = 0")
        _write_count(source, source.schema.struct, "m")
        source.line("return n")
    return source.function("count")


def _write_count(source: Source, of: Struct, message: str) -> None:
    for field in source.plain_fields(of):
        if not field.is_array:
            continue
        elements, element = source.new_name("list"), source.new_name("m")
        source.line(f"{elements} = {message}.{field.name} or ()")
        source.line(f"n += len({elements})")
        if field.struct is not None and any(inner.is_array for inner in source.plain_fields(field.struct)):
            with source.block(f"for {element} in {elements}:"):
                source.when("n > most", "return n")
                _write_count(source, field.struct, element)


@cache
def _replacing(name: str, version: int) -> Callable[[Message, Callable[[str, int, int], int]], None]:
    """Return a function that replaces a message's error codes. A function of an API's name, a version and a code
    returns the new code."""
    source = Source(schema_of(name), version)
    with source.block("def replace(m, sent):"):
        source.line("pass")
        _write_replacing(source, source.schema.struct, "m")
    return source.function("replace")


def _write_replacing(source: Source, of: Struct, message: str) -> None:
    fields = source.plain_fields(of) + source.tagged_fields(of)
    api = source.schema.struct.name.removesuffix("Response")
    for code in (f"{message}.{field.name}" for field in fields if field.name.endswith("error_code")):
        source.when(code, f"{code} = sent({api!r}, {source.version}, {code})")
    for field in fields:
        if field.is_array and field.struct is not None and _has_codes(field.struct):
            element = source.new_name("m")
            with source.block(f"for {element} in {message}.{field.name} or ():"):
                source.line("pass")
                _write_replacing(source, field.struct, element)


def _has_codes(of: Struct) -> bool:
    return any(f.name.endswith("error_code") or (f.struct is not None and _has_codes(f.struct)) for f in of.fields)
