"""Private fields of responses: a connection whose client calls itself "ottla" gets them, and no other."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from ottla_broker.kafka.authorization.needs import NOTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import create_topics
from ottla_broker.kafka.handling import LARGE_ELEMENTS, control
from ottla_broker.kafka.wire.frames import Announcement, Caller, KafkaContext
from ottla_core.kafka import codec
from ottla_core.kafka.messages import CreateTopicsRequest, CreateTopicsResponse
from ottla_core.kafka_formats.primitives import Reader

VERSION = 7


class Threads:
    """Does at once what a broker does in a thread."""

    async def work(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def warnings_for(software: str, topics: int, *, later: bool) -> list[Any]:
    topic = CreateTopicsResponse.CreatableTopicResult(name="t", error_message=None, configs=None, warnings=["mind it"])
    response = CreateTopicsResponse(topics=[topic] * topics)

    async def awaited() -> CreateTopicsResponse:
        return response

    handle: Any = lambda *_: awaited() if later else response  # noqa: E731
    handler = control(
        CreateTopicsRequest, (VERSION, VERSION), handle, needs=NOTHING, errors=create_topics.API.errors
    ).handler
    announcement = Announcement()
    announcement.software = software
    body = Reader(memoryview(codec.encode(CreateTopicsRequest(), VERSION)), flexible=True)
    context = KafkaContext(VERSION, 1, "me", body, Caller("10.0.0.2", "10.0.0.1", announcement=announcement))
    result = handler(cast(Backend, SimpleNamespace(threads=Threads())), context)
    parts: Any = uvloop.run(result) if asyncio.iscoroutine(result) else result
    found = codec.decode(CreateTopicsResponse, b"".join(parts), VERSION)
    return [topic.warnings for topic in found.topics]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("topics", [1, LARGE_ELEMENTS + 1])
def test_clients_of_ottla_get_private_fields(topics: int, later: bool) -> None:
    assert warnings_for("ottla", topics, later=later) == [["mind it"]] * topics


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("topics", [1, LARGE_ELEMENTS + 1])
@pytest.mark.parametrize("software", ["", "apache-kafka-java"])
def test_other_clients_get_none(software: str, topics: int, later: bool) -> None:
    assert warnings_for(software, topics, later=later) == [()] * topics
