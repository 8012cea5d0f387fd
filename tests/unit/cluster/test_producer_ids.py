"""Producer ids out of blocks: none twice, none that the controller has not made durable before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from waiting import until

from ottla_core.cluster import producer_ids
from ottla_core.cluster.producer_ids import ProducerIdManager, Registered
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb


class Allocating:
    """A controller with blocks of three."""

    def __init__(self) -> None:
        self.asked: list[pb.AllocateProducerIdsRequest] = []
        self.away = False

    async def call(self, method: Any, request: pb.AllocateProducerIdsRequest, *, timeout: float) -> Any:
        await asyncio.sleep(0)
        if self.away:
            raise OttlaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")
        self.asked.append(request)
        return pb.AllocateProducerIdsResponse(first=100 * len(self.asked), count=3)


@pytest.fixture
async def controller() -> Allocating:
    return Allocating()


@pytest.fixture
async def ids(controller: Any) -> AsyncIterator[ProducerIdManager]:
    ids = ProducerIdManager(controller, "txn", lambda: Registered(3, 33, b"proof"))
    await ids.start()
    yield ids
    await ids.stop()


@pytest.mark.rule(34)
@pytest.mark.feature(136)
async def test_many_at_once_get_each_its_own(ids: ProducerIdManager, controller: Allocating) -> None:
    given = await asyncio.gather(*(ids.next() for _ in range(7)))
    assert given == [100, 101, 102, 200, 201, 202, 300]
    assert {(a.kind, a.instance_id, a.instance_epoch, a.secret) for a in controller.asked} == {("txn", 3, 33, b"proof")}


async def test_a_block_is_in_stock_before_anybody_asks_and_another_when_it_is_half_used(
    ids: ProducerIdManager, controller: Allocating
) -> None:
    await until(lambda: len(controller.asked) == 1)
    assert await ids.next() == 100
    await asyncio.sleep(0)
    assert len(controller.asked) == 1
    assert await ids.next() == 101
    await until(lambda: len(controller.asked) == 2)
    controller.away = True
    assert [await ids.next() for _ in range(4)] == [102, 200, 201, 202]


@pytest.mark.rule(34)
async def test_without_a_controller_there_is_an_error_and_no_guess(
    ids: ProducerIdManager, controller: Allocating, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until(lambda: len(controller.asked) == 1)
    controller.away = True
    monkeypatch.setattr(producer_ids, "_WAIT_S", 0.01)
    assert [await ids.next() for _ in range(3)] == [100, 101, 102]
    with pytest.raises(OttlaError, match="did not allocate producer ids"):
        await ids.next()
    controller.away = False
    monkeypatch.undo()
    assert await ids.next() == 200


async def test_an_instance_without_a_registration_asks_once_it_has_one(controller: Any) -> None:
    registered: list[Registered] = []
    ids = ProducerIdManager(controller, "txn", lambda: registered[0] if registered else None)
    await ids.start()
    giving = asyncio.create_task(ids.next())
    await asyncio.sleep(0.01)
    assert controller.asked == []
    registered.append(Registered(3, 33))
    assert await giving == 100
    await ids.stop()
