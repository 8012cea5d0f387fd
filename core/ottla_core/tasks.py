"""Background tasks: how every component ends its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

_log = logging.getLogger(__name__)


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel the task and wait until it is over; nothing where there is none. Raises what it ended with."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """The same for several, all of which are over when this returns. What one has died of is logged: raised, it would
    take the place of the cancellation that ends them, and what has to stop would go on."""
    for task in tasks:
        try:
            await end_task(task)
        except Exception:
            _log.exception("%s had died", task.get_name())
