"""Producer for asyncio: `await send(…)` is a single await, and returns once the record is acknowledged.

The loop wakes once for each batch. If the buffer has room, `send` appends the record at once, on the loop's own thread.
A record that would have to wait for room or for metadata goes into a line that a thread works off, and so do all later
records while the line is not empty, so their order is kept. The line holds as many bytes as the buffer; beyond that
`send` raises. A flush or close goes behind the line, so it covers every record that `send` has accepted.
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
from ottla.aio.carry_through import carry_through, let_go
from ottla.aio.sending import Sending
from ottla.aio.transaction import Transaction
from ottla.aio.unretrieved import UnretrievedFailures
from ottla.client.offsets import GroupMetadata, OffsetsLike
from ottla.client.units import Duration
from ottla.errors import OttlaError
from ottla.generics import K, V
from ottla.machines.failures import line_full
from ottla.machines.transaction import PreparedTransaction
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.producer.delivery import Delivery, outcomes
from ottla.producer.producer import Producer as SyncProducer
from ottla.producer.producer import closed_error
from ottla.producer.send_many import BatchResult
from ottla.producer.transactions import GroupMember
from ottla.serdes.serdes import HeadersLike

T = TypeVar("T")

_Waiting = tuple[list[Sending], list[Delivery]]
"""The records of one batch, both lists in the same order. A list of pairs would cost the garbage collector one more
object for each record."""

_Late = tuple[Sending, Any, dict[str, Any], int]
"""A record in the line, and the bytes that it counts for."""

_RECORD_BYTES: Final = 100
"""What each record in the line counts for besides its key and value, as in a batch."""

_LEAST_LINE_BYTES: Final = 1 << 20
"""The line holds at least this many bytes, however small the buffer is."""

_LINE_END_S: Final = 5.0
"""How long a close waits for the line's thread; records that are still in the line fail at once."""


class Producer(Generic[K, V]):
    """Sends records to topics. It takes the same arguments as ottla.Producer. Use a producer in one event loop only.

    If you await each `send` before the next, every batch contains one record. To fill batches, start many sends and
    gather them. Records of one partition are written in the order of the calls.
    """

    @same_arguments(SyncProducer[K, V])
    def __init__(self, *args: Any, **arguments: Any) -> None:
        self._sync: SyncProducer[K, V] = SyncProducer(*args, **arguments)
        self._waiting: dict[object, _Waiting] = {}
        self._unretrieved = UnretrievedFailures()
        self._line: deque[_Late] = deque()
        self._line_limit: Final = max(_LEAST_LINE_BYTES, self._sync._accumulator.limits.buffer_bytes)
        self._lined_up_bytes = self._worked_off_bytes = 0  # the first counts the loop's bytes, the second the thread's
        self._closed = False
        self._initialization: asyncio.Future[None] | None = None  # whose end no task has seen
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
        """Send one record; await the result to get its RecordMetadata after the acknowledgement.

        The record is sent whether you await the result or not; you may also gather results or wrap one in a task.
        Awaiting the result raises the errors of `ottla.Producer.send`, and the error of a failed delivery. If you don't
        await the result, `flush` and `close` raise the error. Cancelling the wait does not cancel the send: the record
        may still be delivered.

        While the buffer is full, records wait in a queue of the same size, each for up to `max_block`. BufferFullError
        means that this queue is also full; await some earlier sends first.
        """
        loop = asyncio.get_running_loop()
        sending = Sending(loop=loop)
        if self._closed:
            self._refuse(sending, closed_error())
        elif self._line or self._sync.would_wait(topic):
            # The size of a value that is not serialized yet leaves out the objects that it holds.
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
        """Send rows like `ottla.Producer.send_many`. A thread iterates over `rows`."""
        sent = await self._behind_line(self._sync.start_many, rows, topic)
        return await asyncio.to_thread(self._sync.settle_many, sent)

    async def partitions_for(self, topic: str | None = None) -> int:
        """Return the number of partitions, like `ottla.Producer.partitions_for`."""
        return await self._behind_line(self._sync.partitions_for, topic)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the producer, like `ottla.Producer.metrics`."""
        return self._sync.metrics

    async def flush(self, timeout: Duration | None = None) -> None:
        """Send every buffered record and wait, like `ottla.Producer.flush`."""
        if not self._closed:
            await self._behind_line(_nothing)
            await asyncio.to_thread(self._sync.flush, timeout)  # the line does not wait for it, cancelled or not
        self._unretrieved.raise_failures()

    async def init_transactions(self) -> None:
        """Prepare for transactions, like `ottla.Producer.init_transactions`.

        If the wait is cancelled, the initialization continues, and the next call waits for it.
        """
        if self._initialization is None:
            self._initialization = self._behind_line(self._sync.init_transactions)
        initialization = self._initialization
        try:
            await carry_through(initialization)
        finally:
            if initialization.done():
                self._initialization = None

    async def begin_transaction(self) -> None:
        """Begin a transaction, like `ottla.Producer.begin_transaction`. If the wait is cancelled, none has begun."""
        outcome = TransactionOutcome()
        try:
            await self._behind_line(self._begin, outcome)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError):  # the producer is closed
                let_go(self._behind_line(self._withdraw, outcome))
            raise

    async def send_offsets_to_transaction(
        self, offsets: OffsetsLike, group_metadata: GroupMetadata | GroupMember
    ) -> None:
        """Add offsets to the transaction, like `ottla.Producer.send_offsets_to_transaction`.

        If the wait is cancelled, the call continues; if it fails then, so does the transaction.
        """
        await carry_through(self._behind_line(self._sync.send_offsets_to_transaction, offsets, group_metadata))

    async def commit_transaction(self) -> None:
        """Commit like `ottla.Producer.commit_transaction`. If the wait is cancelled, the commit continues."""
        await carry_through(self._behind_line(self._sync.commit_transaction))

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Prepare like `ottla.Producer.prepare_transaction`. If the wait is cancelled, the preparation continues."""
        return await carry_through(self._behind_line(self._sync.prepare_transaction))

    async def abort_transaction(self) -> None:
        """Abort like `ottla.Producer.abort_transaction`. If the wait is cancelled, the abort continues."""
        await carry_through(self._behind_line(self._sync.abort_transaction))

    def transaction(self, consumer: GroupMember | None = None) -> Transaction:
        """Return a transaction for `async with producer.transaction(consumer) as tx`.

        Otherwise it works like `ottla.Producer.transaction`. If the task is cancelled while the block ends, the commit
        or abort continues, and the next block waits for it. The consumer then continues after the records if the commit
        succeeded, and otherwise returns them again.
        """
        sync = self._sync.transaction(consumer)
        return Transaction(self.send, self._behind_line, self._unretrieved.forget, sync)

    async def close(self, timeout: Duration | None = None) -> None:
        """Close like `ottla.Producer.close`.

        If you cancel the call, it ends immediately, and the remaining records fail.
        """
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
                raise  # otherwise the block's own error is raised

    def _behind_line(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Make the call on the thread that works off the line, once everything now in the line has been sent."""
        self._sync._guard.check_process()
        return asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def _begin(self, outcome: TransactionOutcome) -> None:
        self._sync._transactions().begin(outcome)

    def _withdraw(self, outcome: TransactionOutcome) -> None:
        self._sync._transactions().withdraw(outcome)

    def _close_behind_line(self, timeout: Duration | None) -> None:
        """Like `_behind_line`, on a thread, within the timeout; after that, the records in the line fail."""
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
        """Send what is in the line, on the thread, waiting as long as it takes."""
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
        """Return the futures to resolve when this delivery's batch is settled, empty so far: one call into the loop
        resolves all of them."""
        batch = delivery.batch_key()
        waiting: _Waiting = [], []
        self._waiting[batch] = waiting
        delivery.on_settled(functools.partial(_call_soon, loop, self._resolve, batch))
        return waiting

    def _resolve(self, batch: object) -> None:
        sendings, deliveries = self._waiting.pop(batch)
        for sending, metadata, error in zip(sendings, *outcomes(deliveries), strict=True):
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
    """Schedule the call in the loop; nothing waits in a closed loop."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def _nothing() -> None:
    """Do nothing: it is done when everything before it is."""
