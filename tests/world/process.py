"""A process of the world: an event loop, threads beside it, a clock, and files and connections that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.world.clocks import HostClock
from tests.world.fibers import Fiber, World
from tests.world.loop import SimulatedLoop
from tests.world.network import Network


class Process:
    """`name` is also its host. `main` runs on its loop; the process ends when that returns or raises.

    It is the `Clock` of the services that run in it.
    """

    def __init__(
        self, world: World, network: Network, name: str, main: Callable[[Process], Coroutine[Any, Any, None]]
    ) -> None:
        self.world: Final = world
        self.network: Final = network
        self.name: Final = name
        self.started_at: Final = world.now
        self.is_alive = True
        self.ended: BaseException | None = None
        self._idle = False
        self._clock: Final[HostClock] = world.clock_of(name)
        self._clock_offset_s: Final = world.random.uniform(0, 100)
        self.loop: Final = SimulatedLoop(world, self)
        self.fibers: Final[set[Fiber]] = set()
        self.on_end: Final[list[Callable[[], None]]] = []
        """What the operating system does when the process is gone: it closes connections and releases locks."""
        self._wakes = 0
        self._fiber: Final = Fiber(self, "loop", self._run, is_loop=True)
        self.fibers.add(self._fiber)
        self._main: Any = None
        world.processes.append(self)
        world.note(f"{name} starts")
        world.after(0, lambda: self._begin(main))

    # ---- its clocks ------------------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        return self._clock.counted(self.world.now) + self._clock_offset_s

    def wall_ms(self) -> int:
        return self._clock.wall_ms(self.world.now)

    # ---- its life --------------------------------------------------------------------------------------------------

    def _begin(self, main: Callable[[Process], Coroutine[Any, Any, None]]) -> None:
        def on_done(task: Any) -> None:
            self.ended = None if task.cancelled() else task.exception()
            self.world.note(f"{self.name} ends" if self.ended is None else f"{self.name} fails: {self.ended}")
            if self.ended is not None:
                self.world.failures.append(f"{self.name} has ended by itself: {self.ended!r}")
            self.end()

        self._main = self.loop.create_task(main(self))
        self._main.add_done_callback(on_done)
        self.world.resume(self._fiber)

    def _run(self) -> None:
        loop, world = self.loop, self.world
        while True:
            at = loop.next_at()
            now = loop.time()
            if at is not None and at <= now:
                loop.run_one()
                world.pause(world.step_s())
                continue
            self._idle = True
            self._wakes += 1
            if at is not None:
                wake = self._wakes
                world.after((at - now) / self._clock.rate + 1e-9, lambda wake=wake: self._on_time(wake))
            world.park()

    def _on_time(self, wake: int) -> None:
        if self._idle and wake == self._wakes:
            self._idle = False
            self.world.resume(self._fiber)

    def wake(self) -> None:
        """Let the loop look for something to do, if it waits."""
        if self._idle and self.is_alive:
            self._idle = False
            self.world.after(self.world.step_s(), lambda: self.world.resume(self._fiber))

    def tasks(self) -> list[str]:
        """Return each task that waits, and where it waits."""
        waiting = sorted(asyncio.all_tasks(self.loop), key=hash)
        return [f"{self.name}: {task.get_name()}: {_where(task)}" for task in waiting]

    def kill(self) -> None:
        """End the process as SIGKILL does: nothing of it runs any more."""
        if self.is_alive:
            self.world.note(f"{self.name} is killed")
            self.end()

    def end(self) -> None:
        if not self.is_alive:
            return
        self.is_alive = False
        self.world.processes.remove(self)
        self.world.graveyard.append(self)
        for close in self.on_end:
            close()


def _where(task: asyncio.Task[Any]) -> str:
    """Return the innermost coroutines of a task, by name and line."""
    waits: Any = task.get_coro()
    places = []
    while waits is not None and (frame := getattr(waits, "cr_frame", None) or getattr(waits, "ag_frame", None)):
        places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        waits = getattr(waits, "cr_await", None) or getattr(waits, "ag_await", None)
    return " > ".join(places[-4:])
