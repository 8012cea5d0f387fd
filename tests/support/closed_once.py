"""Consumers that are closed once a test says so, whichever call waits in them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import ottla
import ottla.aio


@contextmanager
def closed_once(stopped: threading.Event, consumer: ottla.Consumer[Any, Any]) -> Iterator[ottla.Consumer[Any, Any]]:
    """Close the consumer from another thread once `stopped` is set."""
    closer = threading.Thread(target=lambda: stopped.wait() and consumer.close())
    closer.start()
    with consumer:
        yield consumer
    closer.join()


@asynccontextmanager
async def aio_closed_once(
    stopped: threading.Event, consumer: ottla.aio.Consumer[Any, Any]
) -> AsyncIterator[ottla.aio.Consumer[Any, Any]]:
    """Close the consumer from another task once `stopped` is set."""

    async def close_in_time() -> None:
        await asyncio.to_thread(stopped.wait)
        await consumer.close()

    closing = asyncio.create_task(close_in_time())
    async with consumer:
        yield consumer
    await closing
