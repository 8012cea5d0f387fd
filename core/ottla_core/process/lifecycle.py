"""The start and stop of a service: components start in order and stop in reverse, SIGTERM drains, and SIGINT twice
kills.

Everything that can fail later on (a disk that went offline) calls `ServiceApp.fail`, and the process ends with one
plain sentence instead of limping on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import PurePath
from typing import Any, Final, Protocol

from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.errors import OttlaError
from ottla_core.event_loop.service_loop import new_service_loop
from ottla_core.event_loop.watchdog import Watchdog
from ottla_core.process import descriptors
from ottla_core.process.allocator import keep_freed_memory
from ottla_core.process.garbage import ShortLooks
from ottla_core.telemetry import Metrics
from ottla_core.text.printable import printable

_log = logging.getLogger(__name__)

STOP_LIMIT_S: Final = 15.0
"""The limit for the whole stop of a service, whatever its parts do. A supervisor that kills services waits longer."""

SWITCH_S: Final = 0.0005
"""How long a thread that runs Python keeps the loop waiting, each time the loop has waited for a client. Python's
default is ten times as long, and a broker serves a tenth next to such a thread (docs/adr/0011)."""


class Component(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


AdminPort = Callable[[str, int, Metrics, Callable[[], str | None], PurePath], Component]
"""Makes a service's admin port from its host, its port, its metrics, a function that says why it is not ready, and the
file of its token (`AdminHttp`)."""


class ServiceApp:
    """A service's components in the order of their start.

    `ready` returns None, or why it does not serve yet. `address` is where its contract is served, once started, and
    `listeners` are where it serves other protocols, by their names.
    """

    def __init__(
        self,
        name: str,
        components: list[Component],
        ready: Callable[[], str | None],
        address: Callable[[], str],
        listeners: Mapping[str, Callable[[], str]] | None = None,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self.name: Final = name
        self.metrics: Final = metrics
        self.ready: Final = ready
        self.address: Final = address
        self.listeners: Final = listeners or {}
        self._components: Final = components
        self._started: list[Component] = []
        self._failure: asyncio.Future[Exception] | None = None

    async def start(self) -> None:
        """Start all components. If one fails, stop those before it and raise."""
        self._failure = asyncio.get_running_loop().create_future()
        try:
            for component in self._components:
                await component.start()
                self._started.append(component)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all components in reverse within STOP_LIMIT_S. One that fails to stop does not keep the others from
        it."""
        await self._end(lambda component: component.stop)

    async def kill(self) -> None:
        """End as SIGKILL would, for tests. A component that leaves the cluster in `stop` has a `kill` that does not."""
        await self._end(lambda component: getattr(component, "kill", component.stop))

    async def _end(self, ending: Callable[[Component], Callable[[], Awaitable[None]]]) -> None:
        """End the components. Each may take half of the time that is left, so that one that hangs leaves the others
        their share."""
        clock = asyncio.get_running_loop().time
        over_at = clock() + STOP_LIMIT_S
        while self._started:
            component = self._started.pop()
            try:
                async with asyncio.timeout((over_at - clock()) / 2):
                    await ending(component)()
            except Exception:
                _log.exception("%s did not stop cleanly", type(component).__name__)

    def fail(self, error: Exception) -> None:
        """End the process, because something is gone that it can't do without."""
        if self._failure is not None and not self._failure.done():
            self._failure.set_result(error)

    async def until_failed(self) -> Exception:
        assert self._failure is not None, "start first"
        return await asyncio.shield(self._failure)


def run(build: Callable[[], ServiceApp]) -> int:
    """Run a service until a signal or a failure, and return the process's exit code. `build` runs inside the loop."""
    keep_freed_memory()
    descriptors.raise_limit()
    sys.setswitchinterval(SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=new_service_loop) as runner:
            return runner.run(_live(build))
    except KeyboardInterrupt:
        return 130


async def _live(build: Callable[[], ServiceApp]) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stopping.is_set() and number == signal.SIGINT:
            os._exit(130)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        app = build()
        if not await _or_stop(app.start(), stopping):
            return 0
    except (OttlaError, OSError, StoreUnavailableError) as error:
        print(printable(f"{sys.argv[0].rpartition('/')[2]}: {error}"), file=sys.stderr)
        return 1
    _log.info("%s is up", app.name)
    short_looks = ShortLooks()
    short_looks.start()  # the objects that exist now stay
    watchdog = Watchdog(app.metrics)
    watchdog.start()
    failed = asyncio.create_task(app.until_failed())
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
    _log.info("%s is shutting down", app.name)
    watchdog.stop()
    short_looks.stop()
    await app.stop()
    stopped.cancel()
    if failed.done():
        print(printable(f"{app.name} ends: {failed.result()}"), file=sys.stderr)
        return 1
    failed.cancel()
    return 0


async def _or_stop(work: Coroutine[Any, Any, None], stopping: asyncio.Event) -> bool:
    """Return whether `work` was done before a signal came. If not, it is cancelled."""
    working = asyncio.create_task(work)
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not working.done():
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return False
    working.result()
    return True
