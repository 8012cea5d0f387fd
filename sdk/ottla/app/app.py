"""App: handlers of consumer groups, declared by a decorator and run until the app is stopped."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.aio.producer import Producer
from ottla.aio.sending import Sending
from ottla.app.context import Context, ThreadContext
from ottla.app.exactly_once import ExactlyOnceWorker
from ottla.app.handler import Order, RecordHandler, checked_consumer, handler_of
from ottla.app.metrics import metrics_of
from ottla.app.worker import Worker, consumer_of
from ottla.client.security.logins import Login
from ottla.client.security.security import security_of
from ottla.client.security.tls import Tls
from ottla.client.settings import bootstrap_addresses
from ottla.client.units import Duration, Size, seconds
from ottla.errors import config_error
from ottla.producer.producer import Producer as SyncProducer
from ottla.serdes.serdes import DeserializerLike
from ottla_core.plural import counted

logger = logging.getLogger("ottla.app")

H = TypeVar(
    "H",
    bound=Callable[[Any], object]
    | Callable[[Any, Context[Any, Any]], object]
    | Callable[[Any, ThreadContext[Any, Any]], object],
)
"""A handler, as type checkers see it: one that needs a third argument is an error."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_PRODUCERS: Final = frozenset(inspect.signature(SyncProducer.__init__).parameters) - {
    "self", "bootstrap", "login", "tls", "topic", "key", "value", "acks", "transactional_id",
}  # fmt: skip
_TRANSACTION_TIMEOUT: Final = inspect.signature(SyncProducer.__init__).parameters["transaction_timeout"].default
_CONSUMER_BY_DEFAULT: Final = {"assignors": ("cooperative-sticky",)}
"""In a rebalance, handlers of partitions that the member keeps go on running."""


class App:
    """Calls your handlers for records from topics, at least once or exactly once, with retries and dead letters.

        app = ottla.App("billing", consumer={"auto_offset_reset": "earliest"})

        @app.on("orders", concurrency=8, retries=5)
        async def bill(order: dict, ctx: ottla.Context):
            print(f"{ctx.record.partition}: order {order['id']} is billed, attempt {ctx.attempt}")

        app.run()

    A record is finished when its handler has returned, or when it has been written to the dead letters. The app commits
    offsets up to the lowest unfinished record. If the process fails, no record is skipped, and at most `max_in_flight`
    records are handled again. Records with the same key are handled one after the other, in order; records with
    different keys are handled concurrently.

    Args:
        name: the app's name, which is also the default group of its handlers.
        bootstrap: addresses of brokers, "host:port,…" or a list; by default OTTLA_BOOTSTRAP, then localhost:9092.
        exactly_once: commit the records that handlers send, the dead letters and the offsets of the handled records in
            one transaction per `commit_interval` (docs/use/transactions.md). Other effects of handlers may be repeated.
        drain_timeout: seconds to wait for running handlers when the app stops or their partitions move to other
            members. After that, the app cancels coroutines; their records are handled again, by this app or by the new
            owner.
        login, tls: how all clients of the app log in, and whether they use TLS, as for a Producer.
        consumer: arguments to ottla.Consumer for all handlers, such as {"auto_offset_reset": "earliest"}. The
            default for `assignors` is ("cooperative-sticky",).
        producer: arguments to the ottla.Producer that `ctx.send` and dead letters use. That producer uses acks="all"
            and the auto serializer.

    Raises:
        ConfigError: an argument is not valid.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str | Sequence[str] | None = None,
        *,
        exactly_once: bool = False,
        drain_timeout: Duration = 30.0,
        login: Login | None = None,
        tls: Tls | bool | None = None,
        consumer: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise config_error(
                f"App({name!r}) has no name", hint="pass a name, which is also the default group of the app's handlers"
            )
        self.name: Final = name
        bootstrap_addresses(bootstrap)
        login, tls = security_of(login, tls)
        self._cluster: Final = {"bootstrap": bootstrap, "login": login, "tls": tls}
        self._exactly_once: Final = exactly_once
        self._drain_s: Final = seconds(drain_timeout, "drain_timeout")
        self._consumer: Final = _CONSUMER_BY_DEFAULT | checked_consumer(consumer or {})
        self._producer: Final = dict(producer or {})
        for unknown in [name for name in self._producer if name not in _PRODUCERS]:
            known = f"the possible settings are {', '.join(sorted(_PRODUCERS))}"
            hint = f"pass it to the App itself: App(name, {unknown}=…)" if unknown in self._cluster else known
            raise config_error(f"producer={{{unknown!r}: …}} can't be set", hint=hint)
        self._handlers: Final[list[RecordHandler]] = []
        self._workers: list[Worker] = []
        self._running: _Running | None = None
        self._served = self._stopped_before = False
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"App({self.name!r}, {counted(len(self._handlers), 'handler')})"

    def on(
        self,
        *topics: str,
        group: str | None = None,
        concurrency: int = 8,
        order: Order = "key",
        retries: int = 5,
        backoff: Duration = 0.5,
        backoff_max: Duration = 30.0,
        dead_letter: str | None = None,
        key: DeserializerLike[Any] = "auto",
        value: DeserializerLike[Any] | None = None,
        max_in_flight: int = 1000,
        max_in_flight_bytes: Size = "16MiB",
        commit_interval: Duration = 1.0,
        **consumer: Any,
    ) -> Callable[[H], H]:
        """Decorate a handler for the records of `topics`: a coroutine function, or a function to run in a thread.

        The app calls it with a record's value and, if it takes a second argument, a Context. The decorator returns the
        function unchanged, so tests can call it.

        Args:
            group: the consumer group; by default the app's name.
            concurrency: the maximum number of records handled at the same time, which is also the maximum number of
                threads.
            order: "key" handles records with the same key and partition one after the other, in order, and records
                without a key in any order. "partition" handles all records of a partition one after the other, in
                order. A record that waits for a retry holds back only the records that have to follow it in this order.
            retries: the maximum number of retries for a record whose handler raises; 5 means up to 6 attempts.
            backoff: seconds before the second attempt; each further wait is twice as long, up to `backoff_max`. Each
                wait is shortened by a random amount, up to half of it.
            dead_letter: the topic for dead letters: records that failed every attempt, whose handler raised
                RejectError, or that can't be deserialized. A dead letter keeps the record's key, value and headers, and
                gets additional headers `ottla.…`. A batch that can't be read (UnreadableBatchError) becomes one dead
                letter, whose value is the batch as it lies in the log, up to 512 KiB. Without a dead-letter topic, the
                app stops at such a record or batch with HandlerError, and tries it again when it next runs.
            key, value: deserializers, as for ottla.Consumer. By default, `value` follows the type annotation of the
                handler's first parameter, or is auto if the parameter has no annotation.
            max_in_flight: the maximum number of records that are read but not committed, and therefore the maximum
                number that are handled again after a crash. At this limit the app stops reading, even if a single
                record that is being retried holds up the commit.
            max_in_flight_bytes: the maximum total size in bytes of unfinished records; one poll may exceed this limit.
            commit_interval: seconds between commits; the app commits sooner once half of `max_in_flight` records are
                finished.
            consumer: further arguments to ottla.Consumer, such as auto_offset_reset or max_poll_interval.

        Raises ConfigError for an invalid argument when you apply the decorator, not when the app runs.
        """
        settings = {name: value for name, value in locals().items() if name not in ("self", "consumer")}

        def declare(call: H) -> H:
            handler = handler_of(call, topics, self.name if group is None else group, settings, consumer)
            self._check_twice(handler)
            consumer_of(handler, self._consumer_arguments(handler)).close()  # opens nothing, but checks the arguments
            self._handlers.append(handler)
            return call

        return declare

    def _check_twice(self, new: RecordHandler) -> None:
        if self._running is not None:
            raise config_error(
                f"{new.name} can't be declared while the app is running", hint="declare handlers before the app starts"
            )
        for other in self._handlers:
            common = set(new.topics) & set(other.topics)
            if new.group == other.group and common:
                raise config_error(
                    f"{new.name} and {other.name} both handle {', '.join(sorted(common))} for the group {new.group!r}: "
                    "each would get only some of the records",
                    hint="use a different group= for one of them",
                )
            if new.dead_letter in other.topics and other.dead_letter in new.topics:
                raise config_error(
                    f"{new.name} and {other.name} would send each other their dead letters forever",
                    hint="use a different dead_letter= for one of them",
                )

    # ---- running -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Handle records until SIGINT, SIGTERM or `stop`; a second signal ends the process immediately.

        Raises like `serve`.
        """
        asyncio.run(self._serve_with_signals())

    async def serve(self) -> None:
        """Handle records in the current event loop until you call `stop` or cancel the task.

        The app then starts no more handlers, waits for running handlers, commits the finished records and leaves its
        groups. After an orderly stop, it raises HandlerError if a record could not be handled, or the error that
        stopped a consumer.
        """
        if not self._handlers:
            raise config_error(f"the app {self.name!r} has no handlers", hint='declare one with @app.on("a-topic")')
        if self._running is not None:
            raise config_error(f"the app {self.name!r} is already running", hint="create another App")
        running = self._running = _Running(asyncio.get_running_loop())
        running.stopped, self._stopped_before, self._served = self._stopped_before, False, True
        make_producer = functools.partial(Producer, **{**self._cluster, "client_id": self.name, **self._producer})
        outbox = _Outbox(make_producer)
        timeout = self._producer.get("transaction_timeout", _TRANSACTION_TIMEOUT)
        transaction_timeout_s = seconds(timeout, "transaction_timeout")
        try:
            for topic in sorted({handler.dead_letter for handler in self._handlers if handler.dead_letter}):
                await outbox.producer.partitions_for(topic)  # now rather than at the first dead letter
            for handler in self._handlers:
                arguments = self._consumer_arguments(handler)
                common = running.fail, self._drain_s
                running.workers.append(
                    ExactlyOnceWorker(handler, arguments, make_producer, *common, transaction_timeout_s)
                    if self._exactly_once
                    else Worker(handler, arguments, outbox.send, *common)
                )
            self._workers = running.workers
            if running.stopped:
                running.stop()
            await asyncio.gather(*(running.run(worker) for worker in self._workers))
        finally:
            self._running = None
            await outbox.close()
        if running.error is not None:
            raise running.error

    def stop(self) -> None:
        """Begin an orderly stop, after which `run`, `serve` or the `async with` block returns. Any thread may call it.

        If the app has not started yet, it stops as soon as it starts.
        """
        running = self._running
        self._stopped_before = not self._served
        if running is not None and not running.loop.is_closed():
            running.loop.call_soon_threadsafe(running.stop)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the app; docs/use/sdk.md lists their names. Any thread may read them."""
        return metrics_of(self._workers)

    async def __aenter__(self) -> Self:
        """Handle records while the block runs."""
        self._task = asyncio.create_task(self.serve())
        await asyncio.sleep(0)
        if self._task.done():  # it could not even start
            await self._task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop, and raise what `serve` raises, unless the block has raised."""
        assert self._task is not None
        self.stop()
        try:
            await self._task
        except Exception:
            if error is None:
                raise

    def _consumer_arguments(self, handler: RecordHandler) -> dict[str, Any]:
        ours = {**self._cluster, "client_id": f"{self.name}-{handler.group}"}
        return {**ours, **self._consumer, **handler.consumer}

    async def _serve_with_signals(self) -> None:
        loop = asyncio.get_running_loop()
        handled = _SIGNALS if threading.current_thread() is threading.main_thread() else ()

        def on_signal(number: signal.Signals) -> None:
            logger.info("%s: the app %s is stopping", number.name, self.name)
            for other in handled:
                loop.remove_signal_handler(other)
            self.stop()

        for number in handled:
            loop.add_signal_handler(number, on_signal, number)
        await self.serve()


class _Running:
    """One run of an app: what stops it, and why."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Final = loop
        self.workers: list[Worker] = []
        self.error: BaseException | None = None
        self.stopped = False

    async def run(self, worker: Worker) -> None:
        """Run a worker; if one ends by an error, all end."""
        try:
            await worker.run()
        except Exception as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Note that the app can't continue; the first error is the one that is raised."""
        logger.error("the app is stopping: %s", error)
        self.error = self.error or error
        self.stop()

    def stop(self) -> None:
        """Make every worker end."""
        self.stopped = True
        for worker in self.workers:
            worker.stop()


class _Outbox:
    """The app's producer, made at the first send."""

    def __init__(self, make: Callable[[], Producer[Any, Any]]) -> None:
        self._make: Final = make
        self._made: Producer[Any, Any] | None = None

    @property
    def producer(self) -> Producer[Any, Any]:
        """The producer; use it in the event loop."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def send(self, value: Any, **arguments: Any) -> Sending:
        """Like aio.Producer.send."""
        return self.producer.send(value, **arguments)

    async def close(self) -> None:
        """Close the producer; afterwards every record is delivered or has failed."""
        if self._made is not None:
            await self._made.close()
