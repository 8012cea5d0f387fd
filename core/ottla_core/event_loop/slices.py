"""Long work on an event loop in slices, so that other tasks run in between.

Code that goes through elements whose number a client chooses does so here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from ottla_core.event_loop.steps import Steps

A = TypeVar("A")
B = TypeVar("B")

SLICE_S: Final = 0.002
_LOOK_INTERVAL: Final = 16
"""How many elements are handled between two looks at the clock. Each alone takes microseconds, and a look takes a part
of one."""


class Slice:
    """A slice of the loop's time. `await rest()` often: it ends the turn once that has lasted long enough. Tasks that
    work side by side share one slice."""

    def __init__(self, length_s: float = SLICE_S) -> None:
        self._length_s: Final = length_s
        self._ends_at = time.perf_counter() + length_s

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self._ends_at

    async def rest(self) -> None:
        while self.is_over:
            ended_at = self._ends_at
            await asyncio.sleep(0)
            if self._ends_at == ended_at:  # otherwise another task that shares it came first
                self._ends_at = time.perf_counter() + self._length_s


async def sliced(work: Callable[[A], B], elements: Iterable[A], time_slice: Slice | None = None) -> list[B]:
    """Return `[work(element) for element in elements]`, computed within the caller's `time_slice`, if it has one."""
    done: list[B] = []
    time_slice = time_slice or Slice()
    await time_slice.rest()  # a caller with many empty sequences would have no other rest
    for number, element in enumerate(elements, 1):
        done.append(work(element))
        if number % _LOOK_INTERVAL == 0:
            await time_slice.rest()
    return done


async def stepped(steps: Steps[A], time_slice: Slice) -> A:
    """Return what `steps.finished` does, computed in slices."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: A = done.value
            return result
        await time_slice.rest()


async def few_at_once(work: Callable[[A], Awaitable[B]], elements: Sequence[A], *, at_once: int) -> list[B]:
    """Do what `asyncio.gather(*map(work, elements))` does, with at most `at_once` under way at a time. `work` must not
    raise."""
    waiting = enumerate(elements)
    done: dict[int, B] = {}

    time_slice = Slice()  # one for all of them together

    async def take() -> None:
        for number, element in waiting:
            done[number] = await work(element)
            await time_slice.rest()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(elements))):
            group.create_task(take())
    return [done[number] for number in range(len(done))]
