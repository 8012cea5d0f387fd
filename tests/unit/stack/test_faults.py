"""A paused service of a test's cluster: what waited goes on in its order, and before what comes after it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla_broker.kafka.api import Handler
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.rpc.context import RequestContext
from ottla_proto.contracts import Broker
from ottla_stack.faults import Faults

NAME = "broker-0"


class Service:
    """Notes in which order its calls, of Kafka's protocol or of ours, are carried out."""

    def __init__(self, faults: Faults, *, kafka: bool) -> None:
        self.carried_out: list[int] = []
        self._kafka = kafka
        self._handle_kafka = faults.around_kafka(NAME)("Produce", cast("Handler", self._note_kafka))
        self._handle = faults.around(NAME)(Broker.LIST_OFFSETS, self._note)

    def call(self, number: int) -> asyncio.Future[Any] | None:
        """None where it is carried out at once."""
        if not self._kafka:
            return asyncio.ensure_future(self._handle(number, RequestContext()))
        request = KafkaContext(9, number, "client", Reader(memoryview(b"")), Caller("here", "there"))
        response = self._handle_kafka(cast("Backend", None), request)
        return asyncio.create_task(response) if asyncio.iscoroutine(response) else None

    def _note_kafka(self, _backend: object, request: KafkaContext) -> list[bytes]:
        self.carried_out.append(request.correlation_id)
        return []

    async def _note(self, request: int, _context: object) -> None:
        self.carried_out.append(request)


@pytest.mark.story("calls-that-overtake-at-the-end-of-a-pause")
@pytest.mark.parametrize("kafka", [True, False])
async def test_calls_that_come_as_a_pause_ends_overtake_none_that_waited(kafka: bool) -> None:
    faults = Faults()
    service = Service(faults, kafka=kafka)
    await faults.pause(NAME)
    calls = [service.call(n) for n in range(3)]
    await asyncio.sleep(0)  # they wait
    calls += [service.call(n) for n in range(3, 5)]  # these do not yet
    await faults.resume(NAME)
    calls += [service.call(n) for n in range(5, 7)]
    await asyncio.gather(*(call for call in calls if call is not None))
    assert service.carried_out == [*range(7)]
    await asyncio.gather(*(call for call in [service.call(7)] if call is not None))
    assert service.carried_out == [*range(8)]


async def test_a_pause_of_a_pause_ends_with_the_first_resume() -> None:
    faults = Faults()
    service = Service(faults, kafka=True)
    await faults.resume(NAME)
    assert service.call(0) is None
    await faults.pause(NAME)
    await faults.pause(NAME)
    waiting = service.call(1)
    assert waiting is not None
    await faults.resume(NAME)
    await waiting
    assert service.call(2) is None
    assert service.carried_out == [0, 1, 2]
