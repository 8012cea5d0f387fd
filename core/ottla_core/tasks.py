"""Background tasks: how every component ends its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel the task and wait until it is over; nothing where there is none. Raises what it ended with."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """The same for several, all of which are over when this returns; raises what the first of them ended with."""
    errors = []
    for task in tasks:
        try:
            await end_task(task)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
