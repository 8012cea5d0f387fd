"""Control messages through kafka-python's `kafka.protocol`, which is made from Kafka's own message definitions.

It is written for clients, which may trust their broker. Here the other side may be anybody: varints are bounded, and
what ends in the middle of a field is refused. Bytes left over are passed by, as Kafka does it: librdkafka leaves three
behind the Metadata request for all topics (confluentinc/librdkafka#5049), which is that of `kcat -L`.
"""

from __future__ import annotations

import struct
import warnings
from typing import Any

from ottla_broker.kafka.frames import Parts
from ottla_broker.kafka.wire import MalformedError, Reader

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, where the definitions are loaded
    from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

Message = Any
"""A message of `kafka.protocol`: its fields are attributes, named as in Kafka's definitions but in snake_case."""


def _emit_bounded_varint(ctx: Any, var_name: str, indent: str, compact: bool = False) -> None:
    """The library's code for reading a varint, with an end: a number of a million digits would take minutes."""
    byte, shift = ctx.next_var("b"), ctx.next_var("sh")
    for line in (
        f"{var_name} = {shift} = 0",
        "while True:",
        f"    {byte} = data[pos]",
        "    pos += 1",
        f"    {var_name} |= ({byte} & 0x7f) << {shift}",
        f"    if not ({byte} & 0x80): break",
        f"    {shift} += 7",
        f"    if {shift} > 28: raise ValueError('a varint of more than five bytes')",
    ):
        ctx.emit(indent, line)


UnsignedVarInt32.emit_decode_from = _emit_bounded_varint


def decode(request_type: Any, version: int, body: Reader) -> Message:
    """The request in `body`. Raises MalformedError."""
    read = request_type._struct.compiled_decode_from(
        version, compact=body.flexible, tagged=body.flexible, data_class=request_type
    )
    try:
        request, body.at = read(body.data, body.at)
    except (ValueError, IndexError, TypeError, OverflowError, struct.error) as error:
        raise MalformedError(f"this is no {request_type.__name__} of version {version}: {error}") from None
    if body.at > body.end:  # a slice of what is not there is short, and no error
        raise MalformedError(f"the {request_type.__name__} ends in the middle of a field")
    return request


def encode(answer: Message) -> Parts:
    """The body of an answer, whose version it knows."""
    return [answer.encode()]
