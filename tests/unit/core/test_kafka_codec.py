"""Kafka's messages by our codec, beside kafka-python and kio, in every version of every message."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka_messages import as_kafka_python, invented, newest_known, type_of
from kio_messages import invent, read, write
from tests.fuzz.kio_schemas import request_schema, response_schema

from ottla_core.kafka import codec
from ottla_core.kafka.schema import message_names, schema_of
from ottla_core.kafka_formats.primitives import MalformedError

HEADERS = ("RequestHeader", "ResponseHeader")
NEWER = {
    ("ApiVersions", 5),
    *(("ConsumerGroupDescribe", version) for version in (0, 1)),
    *(("ConsumerGroupHeartbeat", version) for version in (0, 1)),
    ("DeleteGroups", 3),
    ("TxnOffsetCommit", 6),
}
"""Versions of Kafka 4.4, and APIs, that kafka-python does not have yet."""
EACH = [
    pytest.param(name, version, id=f"{name}-{version}")
    for name in message_names()
    for version in schema_of(name).versions
]
BODIES = [each for each in EACH if each.values[0] not in HEADERS]
EXAMPLES = 4
MANY = (0, 130, 31, 32)
"""Counts of which one takes two bytes, and the others are at the end of the table of `struct.Struct`s."""


def kio_type(name: str, version: int) -> Any:
    schema = schema_of(name)
    return (request_schema if schema.kind == "request" else response_schema)(schema.api_key, version)


@pytest.mark.parametrize(("name", "version"), EACH)
def test_a_message_is_the_same_after_a_round_trip(name: str, version: int) -> None:
    for seed in range(EXAMPLES):
        message = invented(name, version, random.Random(seed), many=MANY[seed])
        spelled = codec.encode(message, version)
        assert codec.decode_at(type_of(name), spelled, version, 0) == (message, len(spelled))
        assert codec.decode_at(type_of(name), b"abc" + spelled + b"rest", version, 3) == (message, 3 + len(spelled))
        assert codec.encode(codec.decode(type_of(name), spelled, version), version) == spelled


@pytest.mark.rule(71)
@pytest.mark.parametrize(("name", "version"), BODIES)
def test_kafka_python_spells_it_with_the_same_bytes(name: str, version: int) -> None:
    if version > newest_known(name):
        assert (name.removesuffix("Request").removesuffix("Response"), version) in NEWER
        return
    for seed in range(EXAMPLES):
        message = invented(name, version, random.Random(seed), many=MANY[seed])
        assert codec.encode(message, version) == bytes(as_kafka_python(message, version).encode())


@pytest.mark.rule(71)
@pytest.mark.parametrize(("name", "version"), BODIES)
def test_kio_spells_and_reads_it_with_the_same_bytes(name: str, version: int) -> None:
    """What kio invents, we read and spell again with its bytes."""
    kind = kio_type(name, version)
    for seed in range(EXAMPLES):
        theirs = invent(kind, random.Random(seed))
        spelled = write(theirs)
        message, end = codec.decode_at(type_of(name), spelled, version, 0)
        assert end == len(spelled)
        assert read(kind, codec.encode(message, version)) == theirs


@pytest.mark.parametrize(("name", "version"), EACH)
def test_a_message_that_is_cut_off_is_refused(name: str, version: int) -> None:
    """At any byte, whatever it was in the middle of."""
    spelled = codec.encode(invented(name, version, random.Random(3)), version)
    step = 1 + len(spelled) // 300
    for end in range(0, len(spelled), step):
        with pytest.raises(MalformedError):
            codec.decode(type_of(name), spelled[:end], version)
