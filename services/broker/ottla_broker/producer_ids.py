"""Producer ids for idempotent producers, from blocks that the controller made durable before (KIP-730, rule 34)."""

from __future__ import annotations

import asyncio
from typing import Final

from ottla_broker.controller_peer import ControllerPeer
from ottla_broker.seat import Seat
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_CALL_S: Final = 3.0


class ProducerIds:
    """One block at a time."""

    def __init__(self, controller: ControllerPeer, seat: Seat) -> None:
        self._controller = controller
        self._seat = seat
        self._next = self._end = 0
        self._asking = asyncio.Lock()

    async def next(self) -> int:
        """An id that nobody has had. Raises what the controller answers, or that it can't be reached."""
        async with self._asking:
            if self._next == self._end:
                broker_id, epoch = self._seat.life()
                request = pb.AllocateProducerIdsRequest(kind="broker", instance_id=broker_id, instance_epoch=epoch)
                block = await self._controller.call(Controller.ALLOCATE_PRODUCER_IDS, request, timeout=_CALL_S)
                self._next, self._end = block.first, block.first + block.count
            self._next += 1
            return self._next - 1
