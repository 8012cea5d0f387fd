"""Sends requests to one address in as few calls as possible: a call costs far more than a small request in it.

A request is sent at once if no call is under way and none was made just now; else together with those that come until
then. A single request does not wait; many wait a moment, and cost a fraction.
"""

from __future__ import annotations

import asyncio
import math
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
    """`call` carries at most `most` by the measure `weigh`, or one request alone; calls begin `gather_s` apart, and
    `busy_s` as long as the last one is under way.

    Calls overlap: one that is slow holds up only those that went with it.
    """

    def __init__(
        self,
        call: Call[Request, Response],
        gather_s: float,
        *,
        busy_s: float = 0.0,
        most: int,
        weigh: Callable[[Request], int],
    ) -> None:
        self._call: Final = call
        self._gather_s: Final = gather_s
        self._busy_s: Final = busy_s
        self._most: Final = most
        self._weigh: Final = weigh
        self._waiting: list[_Waiting[Request, Response]] = []
        self._calls: Final[set[asyncio.Task[None]]] = set()
        self._last: Final[set[asyncio.Task[None]]] = set()
        self._last_at = -math.inf
        self._next: asyncio.TimerHandle | None = None

    async def ask(self, request: Request, timeout_s: float) -> Response:
        """Return the response that `call` has for the request, or raise its error."""
        waiting = _Waiting[Request, Response](request, timeout_s, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            self._go_soon()
        return await waiting.response

    def _go_soon(self) -> None:
        loop = asyncio.get_running_loop()
        apart_s = max(self._gather_s, self._busy_s) if self._last else self._gather_s
        self._next = loop.call_at(max(loop.time(), self._last_at + apart_s), self._go)

    def _go(self) -> None:
        self._last_at = asyncio.get_running_loop().time()
        self._last.clear()
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
        self._last.add(task)
        task.add_done_callback(self._on_over)

    def _on_over(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._last.discard(task)
        if self._waiting and not self._last and self._next is not None:
            self._next.cancel()
            self._go_soon()

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
