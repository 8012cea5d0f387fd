"""A whole cluster inside this process: the same services, over the in-memory store and a temporary directory.

It runs on a thread and an event loop of its own, with real gRPC on free ports, so that clients of any kind reach it.
What `ottla up` starts as processes is built here by the same `build` functions.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import uvloop

import ottla_broker.app
import ottla_controller.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.memory import MemoryStore
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.lifecycle import App

START_LIMIT_S: Final = 20.0
_T = TypeVar("_T")


class Cluster:
    """`with Cluster(brokers=3) as c:` gives a cluster at `c.bootstrap`; leaving the block ends it and its data."""

    def __init__(self, *, brokers: int = 1) -> None:
        self._broker_count = brokers
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-cluster-")
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-cluster", daemon=True)
        self._store: Final = MemoryStore()
        self._apps: list[App] = []

    @property
    def bootstrap(self) -> str:
        """The brokers' gRPC addresses, as `bootstrap` of every client takes them."""
        return ",".join(app.address() for app in self._apps if app.name.startswith("broker"))

    def start(self) -> Self:
        self._thread.start()
        try:
            self._run(self._start(), START_LIMIT_S)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every service, then the loop; nothing of the cluster is left afterwards."""
        if not self._thread.is_alive():
            return
        self._run(self._stop(), START_LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_LIMIT_S)
        self._loop.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, work: Coroutine[Any, Any, _T], limit_s: float) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    async def _start(self) -> None:
        self._apps.append(
            ottla_controller.app.build(ControllerConfig(node_id=0, port=0, admin_port=0), store=self._store)
        )
        for number in range(self._broker_count):
            data = Path(self._folder.name) / f"broker-{number}"
            config = BrokerConfig(node_id=number, data_dir=data, port=0, admin_port=0)
            self._apps.append(ottla_broker.app.build(config, store=self._store))
        for app in self._apps:
            await app.start()
        give_up_at = time.monotonic() + START_LIMIT_S
        while waiting := [f"{a.name}: {why}" for a in self._apps if (why := a.ready()) is not None]:
            if time.monotonic() > give_up_at:
                raise OttlaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster did not start: {'; '.join(waiting)}")
            await asyncio.sleep(0.005)

    async def _stop(self) -> None:
        for app in reversed(self._apps):
            await app.stop()
        await self._store.close()
