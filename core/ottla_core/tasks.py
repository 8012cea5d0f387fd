"""Background tasks: how every component ends its own."""

from __future__ import annotations

import asyncio
import contextlib


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel the task and wait until it is over; nothing where there is none. Raises what it ended with."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
