"""Background tasks are ended here, by every component."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

_log = logging.getLogger(__name__)


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel the task and wait until it is over. Do nothing if there is none. Raises the error with which it ended."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End several tasks; all are over when this returns. If a task has died, its error is logged: if it were raised, it
    would replace the cancellation that ends the caller, and the caller would go on."""
    for task in tasks:
        try:
            await end_task(task)
        except Exception:
            _log.exception("the task %s failed", task.get_name())
