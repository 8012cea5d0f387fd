"""Producer ids out of blocks: none twice, none that the controller has not made durable before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla_broker.producer_ids import ProducerIds
from ottla_broker.seat import BrokerLife
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb


class Seated:
    def life(self) -> BrokerLife:
        return BrokerLife(3, 33)


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
        return pb.AllocateProducerIdsReply(first=100 * len(self.asked), count=3)


@pytest.mark.rule(34)
@pytest.mark.feature(136)
async def test_many_at_once_get_each_its_own_and_blocks_are_asked_for_as_they_end() -> None:
    controller: Any = Allocating()
    seat: Any = Seated()
    ids = ProducerIds(controller, seat)
    assert await asyncio.gather(*(ids.next() for _ in range(7))) == [100, 101, 102, 200, 201, 202, 300]
    assert [(a.kind, a.instance_id, a.instance_epoch) for a in controller.asked] == [("broker", 3, 33)] * 3


@pytest.mark.rule(34)
async def test_without_a_controller_there_is_an_error_and_no_guess() -> None:
    controller: Any = Allocating()
    seat: Any = Seated()
    ids = ProducerIds(controller, seat)
    controller.away = True
    with pytest.raises(OttlaError):
        await ids.next()
    controller.away = False
    assert await ids.next() == 100
