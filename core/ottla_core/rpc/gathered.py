"""What goes to one address in as few calls as it allows: a call costs far more than a small request that it carries.

A request goes at once where nothing has gone for a moment, else with whatever comes until that moment is over. A
lone one does not wait; many wait a moment, and cost a fraction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

Request = TypeVar("Request")
Response = TypeVar("Response")

Call = Callable[[list[Request], float], Awaitable[Sequence[Response]]]
"""Carries requests, with the seconds it has: one response each, in their order. What it raises is for all of them."""


class _Waiting(NamedTuple, Generic[Request, Response]):
    request: Request
    timeout_s: float
    response: asyncio.Future[Response]


class Gathered(Generic[Request, Response]):
    """`call` carries at most `most` by the measure `weigh`, or one request alone; calls begin `gather_s` apart.

    Calls overlap: one that is slow holds up only those that went with it.
    """

    def __init__(
        self, call: Call[Request, Response], gather_s: float, *, most: int, weigh: Callable[[Request], int]
    ) -> None:
        self._call: Final = call
        self._gather_s: Final = gather_s
        self._most: Final = most
        self._weigh: Final = weigh
        self._waiting: list[_Waiting[Request, Response]] = []
        self._calls: Final[set[asyncio.Task[None]]] = set()
        self._next_at = 0.0

    async def ask(self, request: Request, timeout_s: float) -> Response:
        """What `call` has for it, or what it raises."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting[Request, Response](request, timeout_s, loop.create_future())
        if not self._waiting:
            loop.call_at(max(loop.time(), self._next_at), self._go)
        self._waiting.append(waiting)
        return await waiting.response

    def _go(self) -> None:
        self._next_at = asyncio.get_running_loop().time() + self._gather_s
        together: list[_Waiting[Request, Response]] = []
        weight = 0
        for waiting in self._waiting:
            if waiting.response.done():  # its caller waits no longer, and it was never sent
                continue
            own = self._weigh(waiting.request)
            weight += own
            if together and weight > self._most:
                self._send(together)
                together, weight = [], own
            together.append(waiting)
        self._waiting = []
        if together:
            self._send(together)

    def _send(self, together: list[_Waiting[Request, Response]]) -> None:
        task = asyncio.create_task(self._carry(together))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _carry(self, together: list[_Waiting[Request, Response]]) -> None:
        timeout_s = max(waiting.timeout_s for waiting in together)
        try:
            responses = await self._call([waiting.request for waiting in together], timeout_s)
            done = list(zip(together, responses, strict=True))
        except Exception as error:  # a bug's too: every caller must hear of it
            for waiting in together:
                if not waiting.response.done():
                    waiting.response.set_exception(error)
            return
        for waiting, response in done:
            if not waiting.response.done():
                waiting.response.set_result(response)
