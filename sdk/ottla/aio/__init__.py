"""The same clients for asyncio: a facade over the threaded core, with the same names and arguments.

    async with ottla.aio.Producer(topic="orders") as producer:
        where = await producer.send(order, key=order["region"])

    async for record in ottla.aio.Consumer("orders", start="earliest"):
        ...

The event loop wakes once for each batch or response, never once for each record. Nothing here blocks it: a call that
has to wait does so on a thread.
"""

from ottla.aio.admin import Admin
from ottla.aio.consumer import Consumer
from ottla.aio.mirror import MirrorClient
from ottla.aio.producer import Producer
from ottla.aio.read import Rows, read
from ottla.aio.table import Table, Watch

__all__ = ["Admin", "Consumer", "MirrorClient", "Producer", "Rows", "Table", "Watch", "read"]
