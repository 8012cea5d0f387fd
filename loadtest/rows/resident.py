"""The resident memory of every process of a stack, sampled from outside while something else runs."""

from __future__ import annotations

import time
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from loadtest.locust.slope import Sample, settled, slope_mb_per_min
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb


class ResidentMemory:
    """`with ResidentMemory(stack, every_s=1) as memory:`, then `memory.samples` by service and `memory.restarted`."""

    def __init__(self, stack: RunningStack, *, every_s: float) -> None:
        names = ["etcd", *(service.name for service in stack.plan.services())]
        self.samples: Final[dict[str, list[Sample]]] = {name: [] for name in names}
        self._stack: Final = stack
        self._pids: Final = {name: stack.pid(name) for name in names}
        self._every_s: Final = every_s
        self._over: Final = Event()
        self._thread: Final = Thread(target=self._run, name="resident-memory", daemon=True)

    @property
    def restarted(self) -> list[str]:
        """Services that are not the process any more that they were at the beginning."""
        return [name for name, pid in self._pids.items() if self._stack.pid(name) != pid]

    def slopes(self) -> dict[str, float]:
        """MB a minute by service, after the settling-in."""
        return {name: round(slope_mb_per_min(settled(samples)), 3) for name, samples in self.samples.items()}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began_at = time.monotonic()
        while True:
            for name, pid in self._pids.items():
                self.samples[name].append((time.monotonic() - began_at, resident_mb(pid)))
            if self._over.wait(self._every_s):
                return
