"""The turns that others have on a loop beside long work."""

from __future__ import annotations

import asyncio


async def turns_during(work: asyncio.Task[object]) -> int:
    """How many turns another task had until `work` was done; what it raises is left in it."""
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    return turns
