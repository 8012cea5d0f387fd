"""Long work on an event loop in slices, so that everybody else has a turn in between.

Who goes through elements that a stranger has counted goes through them here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

SLICE_S: Final = 0.002
_LOOK_EACH: Final = 16
"""Elements: each alone takes microseconds, and a look at the clock a part of one."""


class Slice:
    """Of the time of the loop: `await rest()` often, it ends a turn where that has lasted long enough. Who work beside
    each other share one."""

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
            if self._ends_at == ended_at:  # else somebody who shares it was the first, and has had it
                self._ends_at = time.perf_counter() + self._length_s


async def sliced(work: Callable[[A], B], elements: Iterable[A], turn: Slice | None = None) -> list[B]:
    """`[work(each) for each in elements]`; within the caller's `turn`, where this is itself one step of many."""
    done: list[B] = []
    turn = turn or Slice()
    for number, each in enumerate(elements):
        done.append(work(each))
        if number % _LOOK_EACH == 0:
            await turn.rest()
    return done


async def few_at_once(work: Callable[[A], Awaitable[B]], elements: Sequence[A], *, at_once: int) -> list[B]:
    """`asyncio.gather(*map(work, elements))`, with so many under way at the same time; `work` is not to raise."""
    waiting = enumerate(elements)
    done: dict[int, B] = {}

    turn = Slice()  # of all together

    async def take() -> None:
        for number, each in waiting:
            done[number] = await work(each)
            await turn.rest()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(elements))):
            group.create_task(take())
    return [done[number] for number in range(len(done))]
