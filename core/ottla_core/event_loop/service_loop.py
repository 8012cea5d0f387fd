"""The event loop of services: uvloop's if it is installed, otherwise asyncio's, which is slower."""

from __future__ import annotations

import asyncio


def new_service_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # here, because uvloop may be missing
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
