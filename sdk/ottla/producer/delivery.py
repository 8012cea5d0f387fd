"""The future of one sent record. It is light, because the records of a batch share what waits and calls back.

A producer has one `Announcer`. It wakes threads that wait for a batch, runs callbacks on a thread of its own (a slow
callback delays other callbacks, and flushes), and remembers failures whose outcome was not awaited, so that
`flush()` and `close()` can raise them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, RLock, Thread, current_thread
from time import monotonic
from typing import Final, NamedTuple

from ottla.client.condition import sleep_s
from ottla.client.guard import Guard
from ottla.errors import ErrorCode, OttlaError, TransactionAborted, error_from_code, from_core
from ottla.machines.batches import ProducerBatch
from ottla.machines.failures import not_delivered

logger = logging.getLogger("ottla.producer")


class RecordMetadata(NamedTuple):
    """The topic, partition, offset and timestamp of a written record. `offset` is -1 with acks=0.

    `timestamp` is in milliseconds since the epoch: the producer's, or the broker's if the topic has
    message.timestamp.type=LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """The future outcome of one `send()`. Only a producer creates deliveries.

    The outcome, a RecordMetadata or an OttlaError, is known within `delivery_timeout` of the send.
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self._batch.settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait up to `timeout` seconds (None waits without a limit) and return the record's metadata.

        Raises the error of a failed delivery, or ottla.TimeoutError if the outcome is not known in time. In a forked
        child, where the outcome never becomes known, it raises ConfigError.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._where()

    def exception(self, timeout: float | None = None) -> OttlaError | None:
        """Wait like `result`, and return the error of a failed delivery, or None."""
        if not ticket_of(self._batch).wait(self._batch, timeout):
            refusal = self.last_refusal()
            raise error_from_code(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the outcome of the send to {self._batch.partition} is not known after {timeout:g} s"
                f"{f'; the last attempt failed: {refusal}' if refusal else ''}",
                hint="the outcome is decided within delivery_timeout: wait longer or call again",
            )
        return self._error()

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(self)` on the producer's callback thread once the outcome is known.

        If the outcome is already known, the callback runs soon after this call. In a forked child, which has no
        callback thread, this method raises ConfigError.
        """
        ticket_of(self._batch).add_callback(self._batch, lambda: callback(self))

    def on_outcome(self, callback: Callable[[RecordMetadata, OttlaError | None], object]) -> None:
        """For interceptors: call `callback(metadata, error)` once the outcome is known; `error` is None on success.

        If the delivery failed, the offset is -1. This call does not count as reading the outcome, so `flush` and
        `close` still raise an error for a failed delivery.
        """
        ticket_of(self._batch).add_callback(self._batch, lambda: callback(self._where(), self._error()), awaited=False)

    def on_settled(self, hook: Callable[[], object]) -> None:
        """For facades: call `hook` on the thread that settles the batch, or immediately if it is already settled.

        `hook` must not block.
        """
        ticket_of(self._batch).add_hook(self._batch, hook)

    def on_awaited(self) -> None:
        """For facades: note that the caller awaits the outcome of this batch, so `flush` does not raise its error."""
        ticket_of(self._batch).see(self._batch)

    def last_refusal(self) -> OttlaError | None:
        """For facades: return the error of the record's last failed attempt, or None if no attempt has failed."""
        return None if self.done() else self._error()

    def batch_key(self) -> object:
        """For facades: return a key shared by all deliveries of the same batch, which are settled together."""
        return self._batch

    def _where(self) -> RecordMetadata:
        return outcomes([self])[0][0]

    def _error(self) -> OttlaError | None:
        error = self._batch.part_with(self._index)[0].error
        return None if error is None else from_core(error)

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "failed" if self._error() else "delivered"
        return f"<Delivery to {self._batch.partition}: {state}>"


def outcomes(deliveries: Sequence[Delivery]) -> tuple[list[RecordMetadata], Sequence[OttlaError | None]]:
    """Return where the records of one settled batch are, and their errors. The offset of a failed record is -1.

    For facades: it looks up only once what the records of a batch have in common.
    """
    batch = deliveries[0]._batch
    if batch.parts:
        return [_where_in_part(delivery) for delivery in deliveries], [delivery._error() for delivery in deliveries]
    (topic, partition), first, appended_at = batch.partition, batch.base_offset, batch.log_append_time_ms
    new = tuple.__new__  # half of what calling a NamedTuple costs
    metadata = [
        new(
            RecordMetadata,
            (
                topic,
                partition,
                first + d._index if first >= 0 else -1,
                d._timestamp if appended_at < 0 else appended_at,
            ),
        )
        for d in deliveries
    ]
    return metadata, [deliveries[0]._error()] * len(deliveries)


def _where_in_part(delivery: Delivery) -> RecordMetadata:
    """Return where a record of a split batch is."""
    batch, number = delivery._batch.part_with(delivery._index)
    offset = batch.base_offset + number if batch.base_offset >= 0 else -1
    timestamp = delivery._timestamp if batch.log_append_time_ms < 0 else batch.log_append_time_ms
    return RecordMetadata(*batch.partition, offset, timestamp)


class Ticket:
    """One batch's waiters, callbacks and hooks. `seen` is set when an outcome is awaited; otherwise a failure is
    `counted_in`."""

    __slots__ = ("_announcer", "_callbacks", "_hooks", "_waiters", "counted_in", "seen")

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer
        self._waiters: list[_Waiter] = []
        self._callbacks: list[Callable[[], object]] = []
        self._hooks: list[Callable[[], object]] = []
        self.seen = False
        self.counted_in: FailureCount | None = None

    def wait(self, batch: ProducerBatch, timeout: float | None) -> bool:
        """Wait until the batch is settled; return False after `timeout` seconds."""
        self.seen = True
        settled = batch.settled
        if settled:  # before the lock, which may never be free in a child after a fork
            return True
        self._announcer.guard.check()
        with self._announcer.lock:
            if batch.settled:
                return True
            waiter = _Waiter()
            self._waiters.append(waiter)
        if waiter.wait(timeout):
            return True
        with self._announcer.lock:
            self._waiters = [other for other in self._waiters if other is not waiter]
        return batch.settled

    def add_callback(self, batch: ProducerBatch, callback: Callable[[], object], *, awaited: bool = True) -> None:
        """Call back on the callback thread once the batch is settled; `awaited`: the caller handles the outcome."""
        self.seen = self.seen or awaited
        if self._announcer.disowned:
            self._announcer.guard.check_process()
        with self._announcer.lock:
            if not batch.settled:
                self._callbacks.append(callback)
                return
        self._announcer.run(callback)

    def add_hook(self, batch: ProducerBatch, hook: Callable[[], object]) -> None:
        """Call on the settling thread once the batch is settled, or at once. The hook has to report a failure."""
        with self._announcer.lock:
            self.see(batch)
            if not batch.settled:
                self._hooks.append(hook)
                return
        hook()

    def see(self, batch: ProducerBatch) -> None:
        """Stop counting a failure that `flush` would raise, since the outcome is reported elsewhere."""
        with self._announcer.lock:
            self.seen = True
            if self.counted_in is not None:
                self.counted_in.records -= batch.failed_count
                self.counted_in = None

    def open(self) -> None:
        """Wake, run hooks and call back. The batch was settled before this takes the lock, so no waiter is missed."""
        with self._announcer.lock:
            waiters, callbacks, hooks = self._waiters, self._callbacks, self._hooks
            self._waiters, self._callbacks, self._hooks = [], [], []
        for waiter in waiters:
            waiter.notify()
        for hook in hooks:
            _shielded(hook)
        for callback in callbacks:
            self._announcer.run(callback)


class _Waiter:
    """A thread that waits, or is about to, until it is notified, once.

    Not an Event: an Event has a lock of its own. A signal handler may run while the waiting thread holds it, and then
    the notifying thread would wait for the handler.
    """

    __slots__ = ("_notified",)

    def __init__(self) -> None:
        self._notified = Lock()
        self._notified.acquire()

    def notify(self) -> None:
        self._notified.release()

    def wait(self, timeout: float | None) -> bool:
        """Wait until notified; return False after `timeout` seconds (None: no limit)."""
        deadline_at = None if timeout is None else monotonic() + timeout
        while True:
            left = None if deadline_at is None else deadline_at - monotonic()
            if self._notified.acquire(timeout=sleep_s(left)):
                return True
            if left is not None and left <= 0:
                return False


def _shielded(call: Callable[[], object]) -> None:
    """Call, and log whatever it raises, even SystemExit: the threads that report outcomes serve all records."""
    try:
        call()
    except BaseException:
        logger.exception("a delivery callback raised an exception")


def ticket_of(batch: ProducerBatch) -> Ticket:
    """Return the ticket that the producer put on its batch."""
    ticket = batch.ticket
    assert isinstance(ticket, Ticket)
    return ticket


class FailureCount:
    """How many records failed without being awaited since the last `flush`, and why the first did."""

    __slots__ = ("first", "records")

    def __init__(self) -> None:
        self.records = 0
        self.first: OttlaError | None = None


class Announcer:
    """Announces outcomes. Thread-safe; the callback thread starts with the first callback."""

    def __init__(self, name: str, guard: Guard | None = None) -> None:
        self.lock: Final = RLock()
        self.guard: Final = guard or Guard(name)
        self.guard.watch(self.lock)
        self.name: Final = name
        self._closed = False
        self.disowned = False
        """Whether this is a child after a fork, where nothing calls back."""
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._failures = FailureCount()
        self._logged = False

    def ticket(self) -> Ticket:
        """Return the ticket of a new batch."""
        return Ticket(self)

    def announce(self, batches: list[ProducerBatch]) -> None:
        """Announce that each of `batches` is settled. Call it without the producer's lock: it runs the hooks."""
        for batch in batches:
            ticket = ticket_of(batch)
            if batch.error is None:
                self._logged = False
            else:
                self._count(ticket, batch, batch.error)
            ticket.open()

    def raise_failures(self) -> None:
        """Raise DeliveryError if records failed whose outcome was not awaited, and forget them."""
        with self.lock:
            failures, self._failures = self._failures, FailureCount()
            records, first = failures.records, failures.first
        if records and first is not None:
            raise not_delivered(records, first) from first

    def run(self, callback: Callable[[], object]) -> None:
        """Run `callback` on the callback thread; on this thread, if that one has ended."""
        with self.lock:
            closed = self._closed
            if not closed:
                if self._thread is None:
                    self._thread = Thread(target=self._work, name=f"ottla-callbacks-{self.name}", daemon=True)
                    self._thread.start()
                self._calls.put(callback)
        if closed:
            _shielded(callback)

    def flush(self, timeout: float) -> bool:
        """Wait until the callbacks of everything announced so far have run; return False after `timeout` seconds.

        A callback that calls it waits neither for itself nor for those behind it.
        """
        waiter = _Waiter()
        with self.lock:
            if self._thread is None or self._closed or self._thread is current_thread():
                return True
            self._calls.put(waiter.notify)
        return waiter.wait(timeout)

    def close(self, timeout: float) -> None:
        """Run the callbacks that are due, for up to `timeout` seconds, and end the thread."""
        with self.lock:
            self._closed = True
            thread = self._thread
            self._calls.put(None)
        if thread is None or thread is current_thread():  # a callback may close its producer
            return
        thread.join(timeout)
        if thread.is_alive():
            message = "%s: delivery callbacks have not returned within %g s; the producer stops waiting for them"
            logger.warning(message, self.name, timeout)

    def _count(self, ticket: Ticket, batch: ProducerBatch, error: OttlaError) -> None:
        with self.lock:
            if ticket.seen or isinstance(error, TransactionAborted):  # the end of the transaction raises it
                return
            failures = ticket.counted_in = self._failures
            failures.first = failures.first if failures.records else from_core(error)
            failures.records += batch.failed_count
        if not self._logged:  # log once until a delivery succeeds: in an outage every batch fails
            self._logged = True
            were = "record for %s was" if batch.failed_count == 1 else "records for %s were"
            logger.error(f"%d {were} not delivered: %s", batch.failed_count, batch.partition, error)

    def _work(self) -> None:
        while (callback := self._calls.get()) is not None:
            _shielded(callback)
