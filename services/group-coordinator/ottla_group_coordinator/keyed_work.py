"""Background work with one task for each key, such as a group. Requests that come during the work are handled next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from ottla_core.errors import OttlaError
from ottla_core.event_loop.tasks import end_tasks

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)

_log = logging.getLogger(__name__)


class KeyedWork(Generic[K, A]):
    """Calls `work(key, request)` for each request. `name` describes the work in the log.

    Waiting requests for a key are merged. By default the newest one replaces the others.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[K, A], Awaitable[None]],
        merged: Callable[[A, A], A] = lambda former, new: new,
    ) -> None:
        self._name: Final = name
        self._work: Final = work
        self._merged: Final = merged
        self._asked: Final[dict[K, A]] = {}
        self._tasks: Final[dict[K, asyncio.Task[None]]] = {}

    async def stop(self) -> None:
        await end_tasks(tuple(self._tasks.values()))

    def ask(self, key: K, asked: A) -> None:
        self._asked[key] = self._merged(self._asked[key], asked) if key in self._asked else asked
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._do(key), name=f"{self._name} {key}")

    async def _do(self, key: K) -> None:
        while key in self._asked:
            try:
                await self._work(key, self._asked.pop(key))
            except OttlaError as error:
                # A shard that has moved to another coordinator ends the work for all of its groups.
                level = logging.INFO if error.retriable else logging.WARNING
                _log.log(level, "%s %s is not done yet: %s", self._name, key, error)
            except Exception:
                _log.exception("%s %s failed", self._name, key)
        del self._tasks[key]
