"""Producer for asyncio: `await send(…)` is one await, and means that the record is acknowledged."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic

from ottla.aio.arguments import same_arguments
from ottla.delivery import Delivery, RecordMetadata
from ottla.generics import K, V
from ottla.producer import Producer as SyncProducer
from ottla.serdes import HeadersLike
from ottla.units import Duration

_Waiting = list[tuple[asyncio.Future[RecordMetadata], Delivery]]


class Producer(Generic[K, V]):
    """Sends records to topics; the arguments are those of ottla.Producer. Used from one event loop.

    Whoever awaits each `send` before the next one sends a record at a time; to fill batches, start many and gather
    them. Records of one partition are written in the order of the calls.
    """

    @same_arguments(SyncProducer[K, V])
    def __init__(self, *args: Any, **arguments: Any) -> None:
        self._sync: SyncProducer[K, V] = SyncProducer(*args, **arguments)
        self._waiting: dict[object, _Waiting] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ottla-aio-{self._sync.client_id}")
        self._queued = 0

    async def send(
        self,
        value: V | None,
        *,
        key: K | None = None,
        topic: str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; where it is.

        Waits for room while the buffer is full. Raises what ottla.Producer.send raises, and what made the delivery
        fail. A cancelled send may be delivered all the same.
        """
        send = functools.partial(
            self._sync.send,
            value,
            key=key,
            topic=topic,
            partition=partition,
            headers=headers,
            timestamp=timestamp,
        )
        if self._queued or self._sync.would_wait(topic):  # once one waits, those behind it do: the order stays
            delivery = await self._in_thread(send)
        else:
            delivery = send()
        return await self._settled(delivery)

    async def flush(self, timeout: Duration | None = None) -> None:
        """Like ottla.Producer.flush."""
        await self._in_thread(functools.partial(self._sync.flush, timeout))

    async def close(self, timeout: Duration | None = None) -> None:
        """Like ottla.Producer.close."""
        try:
            await asyncio.to_thread(self._sync.close, timeout)
        finally:
            self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Producer[K, V]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await asyncio.to_thread(self._sync.__exit__, kind, error, traceback)
        finally:
            self._thread.shutdown(wait=False)

    async def _in_thread(self, call: Any) -> Any:
        self._queued += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        finally:
            self._queued -= 1

    def _settled(self, delivery: Delivery) -> asyncio.Future[RecordMetadata]:
        """A future of the running loop. Those of one batch are resolved by one call into the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RecordMetadata] = loop.create_future()
        batch = delivery.batch_key()
        waiting = self._waiting.get(batch)
        if waiting is None:
            waiting = self._waiting[batch] = []
            delivery.on_settled(functools.partial(_call_soon, loop, self._resolve, batch))
        waiting.append((future, delivery))
        return future

    def _resolve(self, batch: object) -> None:
        for future, delivery in self._waiting.pop(batch):
            if future.done():
                continue
            error = delivery.exception(0)
            if error is None:
                future.set_result(delivery.result(0))
            else:
                future.set_exception(error)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Any, argument: object) -> None:
    """Into the loop; a loop that was closed has nobody left who waits."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, argument)
