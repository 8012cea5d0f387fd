"""Producer for asyncio: `await send(…)` is one await, and means that the record is acknowledged.

The loop is woken once a batch. A record that has room is appended right away, on the loop's own thread; one that would
have to wait for room or for metadata goes through a line, which a thread works off, and so do those that come after it:
their order stays. The line holds as many bytes as the buffer, and what comes then is refused. A flush or close comes
behind that line, for what `send` took is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from ottla.aio.arguments import same_arguments
from ottla.aio.sending import Sending
from ottla.aio.transaction import AsyncGroupMember, Transaction
from ottla.aio.unretrieved import UnretrievedFailures
from ottla.client.offsets import GroupMetadata, OffsetsLike
from ottla.client.units import Duration
from ottla.errors import OttlaError
from ottla.generics import K, V
from ottla.machines.failures import line_full
from ottla.machines.transaction import PreparedTransaction
from ottla.producer.delivery import Delivery, outcomes
from ottla.producer.producer import Producer as SyncProducer
from ottla.producer.producer import closed_error
from ottla.producer.send_many import BatchResult
from ottla.producer.transactions import GroupMember
from ottla.serdes.serdes import HeadersLike

T = TypeVar("T")

_Waiting = tuple[list[Sending], list[Delivery]]
"""Of one batch, in the same order. A list of pairs would make one more object a record for the garbage collector."""

_Late = tuple[Sending, Any, dict[str, Any], int]
"""A record in the line, and what it counts for, in bytes."""

_RECORD_BYTES: Final = 100
"""Each record in the line counts as this many bytes more than its key and value, as in a batch."""

_LEAST_LINE_BYTES: Final = 1 << 20
"""The line of a producer with a tiny buffer holds this many bytes."""

_LINE_END_S: Final = 5.0
"""What still stands in the line when the producer is closed fails at once."""


class Producer(Generic[K, V]):
    """Sends records to topics; the arguments are those of ottla.Producer. Used from one event loop.

    To await each `send` before the next one is to send a record at a time; to fill batches, start many and gather
    them. Records of one partition are written in the order of the calls.
    """

    @same_arguments(SyncProducer[K, V])
    def __init__(self, *args: Any, **arguments: Any) -> None:
        self._sync: SyncProducer[K, V] = SyncProducer(*args, **arguments)
        self._waiting: dict[object, _Waiting] = {}
        self._unretrieved = UnretrievedFailures()
        self._line: deque[_Late] = deque()
        self._line_limit: Final = max(_LEAST_LINE_BYTES, self._sync._accumulator.limits.buffer_bytes)
        self._lined_up_bytes = self._worked_off_bytes = 0  # by the loop, and by the thread
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ottla-aio-{self._sync.client_id}")

    def send(
        self,
        value: V | None,
        *,
        key: K | None = None,
        topic: str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
    ) -> Sending:
        """Send one record; awaiting what this gives waits until it is acknowledged, and says where it is.

        It is on its way whether it is awaited or not, and may be gathered or made a task of. Awaiting raises what
        ottla.Producer.send raises, and what made the delivery fail; `flush` and `close` raise it where it was not
        awaited. A record whose waiting was cancelled may be delivered all the same.

        While the buffer is full, records wait in a line that holds as many bytes as the buffer, each for up to
        `max_block`. BufferFullError says that the line is full as well: await some of what was sent first.
        """
        loop = asyncio.get_running_loop()
        sending = Sending(loop=loop)
        if self._closed:
            self._refuse(sending, closed_error())
        elif self._line or self._sync.would_wait(topic):
            # A value that is not serialized yet counts without the objects that it holds.
            size_bytes = _RECORD_BYTES + sys.getsizeof(value) + sys.getsizeof(key)
            if self._line and self._lined_up_bytes + size_bytes - self._worked_off_bytes > self._line_limit:
                self._refuse(sending, line_full(self._line_limit))
                return sending
            arguments = {"key": key, "topic": topic, "partition": partition, "headers": headers, "timestamp": timestamp}
            self._lined_up_bytes += size_bytes
            self._line.append((sending, value, arguments, size_bytes))
            if len(self._line) == 1:
                self._thread.submit(self._work_off, loop)
        else:
            try:
                delivery = self._sync.send(
                    value, key=key, topic=topic, partition=partition, headers=headers, timestamp=timestamp
                )
            except OttlaError as error:
                self._refuse(sending, error)
            else:
                waiting = self._waiting.get(delivery.batch_key())
                if waiting is None:
                    waiting = self._wait_for(delivery, loop)
                waiting[0].append(sending)
                waiting[1].append(delivery)
        return sending

    async def send_many(self, rows: Iterable[Any], *, topic: str | None = None) -> BatchResult:
        """Like ottla.Producer.send_many; `rows` are iterated on a thread."""
        sent = await self._behind_line(self._sync.start_many, rows, topic)
        return await asyncio.to_thread(self._sync.settle_many, sent)

    async def partitions_for(self, topic: str | None = None) -> int:
        """Like ottla.Producer.partitions_for."""
        return await self._behind_line(self._sync.partitions_for, topic)

    @property
    def metrics(self) -> dict[str, float]:
        """Like ottla.Producer.metrics."""
        return self._sync.metrics

    async def flush(self, timeout: Duration | None = None) -> None:
        """Like ottla.Producer.flush."""
        if not self._closed:
            await self._behind_line(_nothing)
            await asyncio.to_thread(self._sync.flush, timeout)  # the line does not wait for it, cancelled or not
        self._unretrieved.raise_failures()

    async def init_transactions(self) -> None:
        """Like ottla.Producer.init_transactions."""
        await self._behind_line(self._sync.init_transactions)

    async def begin_transaction(self) -> None:
        """Like ottla.Producer.begin_transaction."""
        await self._behind_line(self._sync.begin_transaction)

    async def send_offsets_to_transaction(
        self, offsets: OffsetsLike, group_metadata: GroupMetadata | GroupMember
    ) -> None:
        """Like ottla.Producer.send_offsets_to_transaction."""
        await self._behind_line(self._sync.send_offsets_to_transaction, offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Like ottla.Producer.commit_transaction. Where it is cancelled, the commit goes on."""
        await self._behind_line(self._sync.commit_transaction)

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Like ottla.Producer.prepare_transaction. Where it is cancelled, the preparing goes on."""
        return await self._behind_line(self._sync.prepare_transaction)

    async def abort_transaction(self) -> None:
        """Like ottla.Producer.abort_transaction."""
        await self._behind_line(self._sync.abort_transaction)

    def transaction(self, consumer: AsyncGroupMember | None = None) -> Transaction:
        """Like ottla.Producer.transaction: `async with producer.transaction(consumer) as tx`."""
        return Transaction(self.send, self._behind_line, self._unretrieved.forget, self._sync.transaction(), consumer)

    async def close(self, timeout: Duration | None = None) -> None:
        """Like ottla.Producer.close. Where it is cancelled, it ends at once, and what is left fails."""
        self._closed = True
        if self._sync._guard.foreign:
            return
        closing = asyncio.ensure_future(asyncio.to_thread(self._close_behind_line, timeout))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            closing.add_done_callback(lambda done: done.cancelled() or done.exception())
            asyncio.get_running_loop().run_in_executor(None, self._sync.close, 0.0)
            raise
        self._unretrieved.raise_failures()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except OttlaError:
            if error is None:
                raise  # else the block's own error is the one to see

    async def _behind_line(self, call: Callable[..., T], *arguments: Any) -> T:
        """The call, on the thread that works off the line, when all that stands in there has been sent."""
        self._sync._guard.check_process()
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def _close_behind_line(self, timeout: Duration | None) -> None:
        """On a thread: like `_behind_line`, but within the timeout, after which the line fails."""
        limit_s = self._sync._seconds(timeout)
        deadline_at = time.monotonic() + limit_s
        try:
            with contextlib.suppress(RuntimeError, StillWaiting):  # RuntimeError: a second close
                self._thread.submit(_nothing).result(limit_s)
            self._sync.close(max(0.0, deadline_at - time.monotonic()))
        finally:
            with contextlib.suppress(RuntimeError, StillWaiting):
                self._thread.submit(_nothing).result(_LINE_END_S)
            self._thread.shutdown(wait=False)

    def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
        """On the thread: send what is in the line, waiting as long as it takes."""
        while self._line:
            sending, value, arguments, size_bytes = self._line[0]
            try:
                delivery = self._sync.send(value, **arguments)
            except BaseException as error:
                _call_soon(loop, self._refuse, sending, error)
            else:
                delivery.on_awaited()  # before a flush on this thread looks
                _call_soon(loop, self._expect, sending, delivery, loop)
            self._worked_off_bytes += size_bytes
            self._line.popleft()  # only now: while it is in here, the loop appends behind it and not past it

    def _expect(self, sending: Sending, delivery: Delivery, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting.get(delivery.batch_key()) or self._wait_for(delivery, loop)
        waiting[0].append(sending)
        waiting[1].append(delivery)

    def _wait_for(self, delivery: Delivery, loop: asyncio.AbstractEventLoop) -> _Waiting:
        """The futures to resolve when this delivery's batch is settled, none yet: one call into the loop for all."""
        batch = delivery.batch_key()
        waiting: _Waiting = [], []
        self._waiting[batch] = waiting
        delivery.on_settled(functools.partial(_call_soon, loop, self._resolve, batch))
        return waiting

    def _resolve(self, batch: object) -> None:
        sendings, deliveries = self._waiting.pop(batch)
        records, error = outcomes(deliveries)
        for sending, metadata in zip(sendings, records, strict=True):
            if sending.done():
                continue
            if error is None:
                sending.set_result(metadata)
            else:
                self._fail(sending, error)

    def _refuse(self, sending: Sending, error: BaseException) -> None:
        sending.is_refused = True
        self._fail(sending, error)

    def _fail(self, sending: Sending, error: BaseException) -> None:
        if not sending.done():
            sending.set_exception(error)
            self._unretrieved.add(sending)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Any, *arguments: object) -> None:
    """Into the loop; in a loop that was closed nothing waits any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def _nothing() -> None:
    """Done when all that came before it is."""
