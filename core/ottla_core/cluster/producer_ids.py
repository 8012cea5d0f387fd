"""Producer ids come from blocks that the controller has made durable before (KIP-730, rule 34).

The next block is requested when the present one is half used, and the first one at the start. So producers can begin
even while no controller can be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.rpc.retry import Backoff
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_CALL_S: Final = 3.0
_WAIT_S: Final = 5.0

_log = logging.getLogger(__name__)


class Registered(NamedTuple):
    """An instance of a service as the controller knows it. `secret` is that of a broker's registration."""

    instance_id: int
    epoch: int
    secret: bytes = b""


class ProducerIdManager:
    """A component of a service of `kind`, with at most two blocks in stock. `registration()` returns None while there
    is none."""

    def __init__(self, controller: ControllerPeer, kind: str, registration: Callable[[], Registered | None]) -> None:
        self._controller = controller
        self._kind: Final = kind
        self._registration = registration
        self._stock: Final[deque[range]] = deque()
        self._next = 0
        self._low = asyncio.Event()
        self._low.set()
        self._filled = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._fill(), name="producer-ids")

    async def stop(self) -> None:
        await end_task(self._task)

    async def next(self) -> int:
        """Return an id that no producer has had. Raises REQUEST_TIMED_OUT if the controller gives no block in time."""
        try:
            async with asyncio.timeout(_WAIT_S), self._filled:
                await self._filled.wait_for(lambda: self._stock)
                return self._take()
        except TimeoutError:
            raise OttlaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the controller did not allocate producer ids to this {self._kind} within {_WAIT_S:g} s",
                hint=f"try again, or use another {self._kind}",
            ) from None

    def _take(self) -> int:
        block = self._stock[0]
        producer_id = block[self._next]
        self._next += 1
        if self._next == len(block):
            self._stock.popleft()
            self._next = 0
        if len(self._stock) < 2 and self._next * 2 >= len(block):
            self._low.set()
        return producer_id

    async def _fill(self) -> None:
        backoff = Backoff(first_s=0.05)
        while True:
            await self._low.wait()
            try:
                block = await self._ask()
            except Exception as error:  # without this task no producer would get an id any more
                known = isinstance(error, OttlaError)
                if backoff.attempts == 1 or not known:  # the first request may only have come too early
                    _log.warning("can't get producer ids from the controller, retrying: %s", error, exc_info=not known)
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            async with self._filled:
                self._stock.append(block)
                self._filled.notify_all()
            if len(self._stock) == 2 or self._next * 2 < len(self._stock[0]):
                self._low.clear()

    async def _ask(self) -> range:
        me = self._registration()
        if me is None:
            raise OttlaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"this {self._kind} is not registered yet")
        request = pb.AllocateProducerIdsRequest(
            kind=self._kind, instance_id=me.instance_id, instance_epoch=me.epoch, secret=me.secret
        )
        block = await self._controller.call(Controller.ALLOCATE_PRODUCER_IDS, request, timeout=_CALL_S)
        return range(block.first, block.first + block.count)
