"""Calls on a thread that go on when the task that awaits them is cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeVar

logger = logging.getLogger("ottla.producer")

T = TypeVar("T")


async def carry_through(call: asyncio.Future[T]) -> T:
    """Await the call. A cancelled wait does not cancel it, whether it has begun or not; its failure is then logged."""
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        let_go(call)
        raise


def let_go(call: asyncio.Future[Any]) -> None:
    """Let the call go on without anybody who awaits it."""
    call.add_done_callback(_log_failure)


def _log_failure(call: asyncio.Future[Any]) -> None:
    if not call.cancelled() and (error := call.exception()) is not None:
        logger.warning("a call went on after the task that awaited it was cancelled, and failed: %s", error)
