"""A world is one queue of what happens when. Fibers are the threads of its processes: each runs until it lets time
pass, and then the world goes on with whatever is due next.

A process that is killed is never resumed: its fibers stay as they are, in the middle of what they did, until the seed
has ended. So no `finally` of a dead process runs, as none runs after SIGKILL.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from greenlet import getcurrent, greenlet
from tests.world.clocks import HostClock

_STEP_S: Final = 20e-6
"""How long the handling of one event takes a process, on average."""
_MOST_STEPS: Final = 10_000


class StuckError(Exception):
    """The world can't go on."""


class World:
    """`now` is the true time in seconds, which no process knows exactly: each has its own clock."""

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed
        self.random: Final = self.chance("world")
        self.now = 0.0
        self.current: Fiber | None = None
        self.failures: Final[list[str]] = []
        self.processes: Final[list[Any]] = []
        """Those that live, in the order of their starts."""
        self.last_steps: Final[deque[str]] = deque(maxlen=_MOST_STEPS)
        self.graveyard: Final[list[Any]] = []
        """What dead processes leave: if it were freed, their `finally` blocks would run."""
        self._hub: Final = getcurrent()
        self._queue: Final[list[tuple[float, int, Callable[[], None]]]] = []
        self._numbers: Final = itertools.count()
        self._trace: Final = hashlib.sha256()
        self._clocks: Final[dict[str, HostClock]] = {}
        self._dates_agree = False

    def chance(self, purpose: str) -> Random:
        """Return a source of chance that this seed gives for one purpose."""
        return Random(f"{self.seed}/{purpose}")

    def clock_of(self, host: str) -> HostClock:
        """Return the clocks of a host, which its processes share."""
        if host not in self._clocks:
            self._clocks[host] = HostClock(self.chance(f"clock of {host}"))
            if self._dates_agree:
                self._clocks[host].correct()
        return self._clocks[host]

    def let_dates_agree(self) -> None:
        """Set the date of each host to the true one, for a workload that depends on dates."""
        self._dates_agree = True
        for clock in self._clocks.values():
            clock.correct()

    @property
    def trace(self) -> str:
        """This names every step so far: two runs with the same trace did the same."""
        return self._trace.hexdigest()[:16]

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now:.6f} {text}"
        self._trace.update(line.encode())
        self.last_steps.append(line)

    def waiting(self) -> list[str]:
        """Return each task that waits, and where it waits."""
        return [task for process in self.processes for task in process.tasks()]

    def at(self, time: float, happen: Callable[[], None]) -> None:
        """Have something happen at that time."""
        heapq.heappush(self._queue, (max(time, self.now), next(self._numbers), happen))

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        self.at(self.now + seconds, happen)

    @property
    def has_more(self) -> bool:
        """Whether an event is still to come."""
        return bool(self._queue)

    def run_until(self, is_over: Callable[[], bool], *, limit_s: float) -> bool:
        """Let things happen until `is_over`, or that much time has passed. Return whether it is over."""
        ends_at = self.now + limit_s
        while not is_over():
            if not self._queue:
                raise StuckError("nothing will ever happen again")
            if self._queue[0][0] > ends_at:
                self.now = ends_at
                return False
            self.now, _, happen = heapq.heappop(self._queue)
            happen()
        return True

    def run_for(self, seconds: float) -> None:
        is_over: list[bool] = []
        self.after(seconds, lambda: is_over.append(True))
        self.run_until(lambda: bool(is_over), limit_s=seconds)

    # ---- for fibers ------------------------------------------------------------------------------------------------

    def resume(self, fiber: Fiber) -> None:
        """Let a fiber run until it pauses."""
        if not fiber.process.is_alive or fiber.dead:
            return
        self.current = fiber
        self._trace.update(f"{self.now:.9f} {fiber.process.name} {fiber.name}".encode())
        asyncio._set_running_loop(fiber.process.loop if fiber.is_loop else None)
        try:
            fiber.switch()
        finally:
            asyncio._set_running_loop(None)
            self.current = None

    def pause(self, seconds: float) -> None:
        """Let time pass for the fiber that calls this. The world's own code takes no time."""
        fiber = self.current
        if fiber is None:
            return
        if not fiber.process.is_alive:
            self._hub.switch()  # it has just ended itself
        resumed_at = self.now + seconds
        if self._queue and self._queue[0][0] <= resumed_at:
            self.at(resumed_at, lambda: self.resume(fiber))
            self._hub.switch()
        else:
            self.now = resumed_at

    def park(self) -> None:
        """Stop the fiber that calls this until someone resumes it."""
        assert self.current is not None, "the world's own code can't wait"
        self._hub.switch()

    def step_s(self) -> float:
        return _STEP_S * self.random.uniform(0.5, 1.5)


class Fiber(greenlet):
    """A thread of a simulated process. The one that `is_loop` runs its event loop."""

    def __init__(self, process: Any, name: str, run: Callable[[], None], *, is_loop: bool = False) -> None:
        super().__init__(run, process.world._hub)
        self.process: Final = process
        self.name: Final = name
        self.is_loop: Final = is_loop
