"""The generated files of `ottla_core.kafka`, and the examples in its pages, are what their generators write."""

from __future__ import annotations

import textwrap

from tools import kafka_definitions

from ottla_core.kafka import decoder_source, encoder_source, messages
from ottla_core.kafka.messages import DeleteGroupsRequest
from ottla_core.kafka.schema import message_names, schema_of

EXAMPLE = schema_of("DeleteGroupsRequest")


def test_the_classes_are_those_of_the_definitions() -> None:
    assert kafka_definitions.MESSAGES.read_text() == kafka_definitions.messages()


def test_every_message_has_its_class_and_its_key() -> None:
    for name in message_names():
        schema = schema_of(name)
        assert schema.struct.name == name
        assert getattr(getattr(messages, name), "API_KEY", -1) == schema.api_key


def test_the_pages_show_what_is_generated() -> None:
    for page, source in (
        (decoder_source, decoder_source.DecoderSource(EXAMPLE, 2, DeleteGroupsRequest).text),
        (encoder_source, encoder_source.EncoderSource(EXAMPLE, 2).text),
    ):
        assert textwrap.indent(source, "    ") in (page.__doc__ or "").replace("\\\\", "\\")
