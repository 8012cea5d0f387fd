"""`ottla.aio.read`: `ottla.read` for asyncio; a thread fetches and opens the records."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Generic, ParamSpec

from ottla.aio.admin import Facade, threaded
from ottla.consumer.batch import Batch
from ottla.consumer.read import Rows as SyncRows
from ottla.consumer.read import read as sync_read
from ottla.generics import K, V
from ottla.record import Record

P = ParamSpec("P")


class Rows(Facade[SyncRows[K, V]], Generic[K, V]):
    """The result of `ottla.aio.read`. Iterate over it with `async for`, or call one of its methods."""

    to_list = threaded(SyncRows.to_list)
    to_arrow = threaded(SyncRows.to_arrow)
    to_pandas = threaded(SyncRows.to_pandas)

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Iterate record by record. Raises like iterating over ottla.Rows."""
        async for batch in self.batches():
            for record in batch:
                yield record

    async def batches(self) -> AsyncIterator[Batch[K, V]]:
        """Iterate batch by batch, like `ottla.Rows.batches`."""
        batches = self._sync.batches()
        try:
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield batch
        finally:
            await asyncio.to_thread(batches.close)


def _asynchronous(read: Callable[P, SyncRows[K, V]]) -> Callable[P, Rows[K, V]]:
    @functools.wraps(read)
    def call(*args: P.args, **kwargs: P.kwargs) -> Rows[K, V]:
        return Rows(read(*args, **kwargs))

    return call


read = _asynchronous(sync_read)
