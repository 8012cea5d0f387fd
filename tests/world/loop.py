"""The event loop of a simulated process. asyncio's own code runs on it; time, threads and sockets are the world's."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Any, Final

from tests.world.fibers import World
from tests.world.threads import Executor


class _Task(asyncio.Task[Any]):
    """A task that hashes by its number, so that a set of tasks has the same order in every run."""

    def __init__(self, number: int, coro: Any, **named: Any) -> None:
        self._number: Final = number
        super().__init__(coro, **named)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number: Final = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.BaseEventLoop):
    def __init__(self, world: World, process: Any) -> None:
        self._world: Final = world
        self._process: Final = process
        self._default: Final = Executor(world, process, 8)
        self._numbers: Final = itertools.count(1)
        super().__init__()
        self.set_task_factory(lambda _, coro, **named: _Task(next(self._numbers), coro, loop=self, **named))
        self.set_exception_handler(self._on_exception)

    # ---- for the process -------------------------------------------------------------------------------------------

    def next_at(self) -> float | None:
        """Return the time of this loop's clock at which it next has something to do, or None."""
        if self._ready:  # type: ignore[attr-defined]  # of BaseEventLoop
            return self.time()
        scheduled = self._scheduled  # type: ignore[attr-defined]  # BaseEventLoop's own
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        return scheduled[0]._when if scheduled else None

    def run_one(self) -> None:
        """Run one callback."""
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]  # BaseEventLoop's own
        now = self.time()
        while scheduled and scheduled[0]._when <= now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        if ready:
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: `next_at` passes over it."""

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._world.failures.append(f"{self._process.name}: {context.get('message')}: {context.get('exception')!r}")

    # ---- for asyncio -----------------------------------------------------------------------------------------------

    def time(self) -> float:
        monotonic: float = self._process.monotonic()
        return monotonic

    def is_running(self) -> bool:
        return True

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def _write_to_self(self) -> None:
        self._process.wake()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # no pool of threads
        future = self.create_future()

        def on_done(result: Any, error: BaseException | None) -> None:
            self.call_soon_threadsafe(_settle, future, result, error)

        (executor or self._default).start(lambda: func(*args), on_done)
        return future

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self._process.network.listen(self._process, protocol_factory, host, port)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self._process.network.connect(self._process, protocol_factory, host, port)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
