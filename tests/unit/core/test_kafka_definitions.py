"""The generated files of `ottla_core.kafka`, and the examples in its pages, are what their generators write."""

from __future__ import annotations

import textwrap
from types import ModuleType

import pytest
from tools import kafka_definitions

from ottla_core.kafka import decoder_source, encoder_source, messages, private_messages
from ottla_core.kafka.messages import DeleteGroupsRequest
from ottla_core.kafka.private_messages import OttlaCallRequest
from ottla_core.kafka.schema import KAFKAS, PRIVATE, message_names, schema_of

EXAMPLE = schema_of("DeleteGroupsRequest")


@pytest.mark.parametrize("file", [KAFKAS, PRIVATE])
def test_the_classes_are_those_of_the_definitions(file: str) -> None:
    assert kafka_definitions.MESSAGES[file].read_text() == kafka_definitions.messages(file)


@pytest.mark.parametrize(("file", "module"), [(KAFKAS, messages), (PRIVATE, private_messages)])
def test_every_message_has_its_class_and_its_key(file: str, module: ModuleType) -> None:
    for name in message_names(file):
        schema = schema_of(name)
        assert schema.struct.name == name
        assert getattr(getattr(module, name), "API_KEY", -1) == schema.api_key


def test_kafkas_keys_are_far_from_the_private_one() -> None:
    """If this fails, Kafka has taken keys near ours: choose another key, and serve both for a while."""
    keys = {name: schema_of(name).api_key for name in message_names()}
    nearest = max(keys, key=lambda name: keys[name])
    assert keys[nearest] < OttlaCallRequest.API_KEY / 100, f"{nearest} is too near"


def test_the_pages_show_what_is_generated() -> None:
    for page, source in (
        (decoder_source, decoder_source.DecoderSource(EXAMPLE, 2, DeleteGroupsRequest).text),
        (encoder_source, encoder_source.EncoderSource(EXAMPLE, 2).text),
    ):
        assert textwrap.indent(source, "    ") in (page.__doc__ or "").replace("\\\\", "\\")
