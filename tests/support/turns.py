"""The turns that others have on a loop beside long work."""

from __future__ import annotations

import asyncio


class Looks:
    """A clock that is a millisecond later at each look."""

    def __init__(self) -> None:
        self._looks = 0

    def perf_counter(self) -> float:
        self._looks += 1
        return self._looks / 1000


async def turns_during(work: asyncio.Task[object]) -> int:
    """How many turns another task had until `work` was done; what it raises is left in it."""
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    return turns
