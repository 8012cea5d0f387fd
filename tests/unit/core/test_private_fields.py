"""What brokers of ottla add to Kafka's responses: only a client of ottla gets it, and every reader goes on."""

from __future__ import annotations

import json
import pkgutil
import random
from collections.abc import Iterator
from typing import Any

import pytest
from kafka_messages import invented, type_of

from ottla_core.kafka import codec
from ottla_core.kafka.schema import PRIVATE_FIELDS, Field, Struct, extended_schema_of, message_names, schema_of

NAMES = message_names(PRIVATE_FIELDS)
EACH = [pytest.param(name, version, id=f"{name}-{version}") for name in NAMES for version in schema_of(name).versions]
FIRST_TAG = 28532


def structs_of(of: Struct) -> dict[str, Struct]:
    found = {of.name: of}
    for field in of.fields:
        if field.struct is not None:
            found |= structs_of(field.struct)
    return found


def private_values(part: Any, of: Struct) -> Iterator[tuple[Field, Any]]:
    """Yield the private fields of a part of a message, and of the parts in it, with their values."""
    for field in of.fields:
        value = getattr(part, field.name)
        if field.tag >= FIRST_TAG:
            yield field, value
        elif field.struct is not None:
            for element in value or () if field.is_array else [value] if value is not None else []:
                yield from private_values(element, field.struct)


@pytest.mark.parametrize("name", NAMES)
def test_every_private_field_is_a_tagged_one_of_a_response(name: str) -> None:
    schema = extended_schema_of(name)
    assert schema.kind == "response"
    structs, added = structs_of(schema.struct), json.loads(pkgutil.get_data("ottla_core.kafka", PRIVATE_FIELDS) or b"")
    kafkas = structs_of(schema_of(name).struct)
    for struct, definitions in added["messages"][name].items():
        private = structs[struct].fields[len(kafkas[struct].fields) :]
        assert len(private) == len(definitions)
        assert [field.tag for field in private] == list(range(FIRST_TAG, FIRST_TAG + len(private)))
        assert all(field.versions == field.tagged == schema.flexible and field.ignorable for field in private)


@pytest.mark.parametrize(("name", "version"), EACH)
def test_a_client_of_ottla_reads_what_was_added(name: str, version: int) -> None:
    for seed in range(4):
        message = invented(name, version, random.Random(seed), extended=True)
        spelled = codec.encode(message, version, private=True)
        assert codec.decode(type_of(name), spelled, version) == message


@pytest.mark.parametrize(("name", "version"), EACH)
def test_other_clients_get_kafkas_bytes(name: str, version: int) -> None:
    """What they get has nothing that a client of ottla would find in it."""
    for seed in range(4):
        spelled = codec.encode(invented(name, version, random.Random(seed), extended=True), version)
        found = codec.decode(type_of(name), spelled, version)
        assert codec.encode(found, version) == spelled
        assert all(value == field.default for field, value in private_values(found, extended_schema_of(name).struct))


@pytest.mark.parametrize("name", NAMES)
def test_a_tag_that_a_client_does_not_know_is_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of a later release."""
    version = schema_of(name).versions[-1]
    message = invented(name, version, random.Random(3), extended=True)
    spelled = codec.encode(message, version, private=True)
    monkeypatch.setattr(codec, "extended_schema_of", schema_of)
    codec._decoder.cache_clear()
    try:
        codec.decode(type_of(name), spelled, version)
    finally:
        codec._decoder.cache_clear()
