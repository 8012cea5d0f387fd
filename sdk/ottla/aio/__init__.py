"""The same clients for asyncio: a facade over the threaded core, with the same names and arguments.

    async with ottla.aio.Producer(topic="orders") as producer:
        where = await producer.send(order, key=order["region"])

    async for record in ottla.aio.Consumer("orders", start="earliest"):
        ...

The event loop wakes once for each batch or response, never once for each record. Nothing here blocks it: a call that
has to wait does so on a thread.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.aio.admin import Admin
from ottla.aio.consumer import Consumer
from ottla.aio.producer import Producer
from ottla.aio.read import Rows, read
from ottla.aio.table import Table, Watch

if TYPE_CHECKING:
    from ottla.aio.mirror import MirrorClient

__all__ = ["Admin", "Consumer", "MirrorClient", "Producer", "Rows", "Table", "Watch", "read"]


def __getattr__(name: str) -> Any:
    """Import MirrorClient, and its module, at their first use: only mirrors need protobuf."""
    if name not in ("MirrorClient", "mirror"):
        raise AttributeError(f"module 'ottla.aio' has no attribute {name!r}")
    module = import_module("ottla.aio.mirror")
    return module.MirrorClient if name == "MirrorClient" else module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
