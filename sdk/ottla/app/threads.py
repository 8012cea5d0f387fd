"""Threads for handlers that are plain functions.

They are daemons: a handler that never returns does not keep the process from ending, as an executor's thread would.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final

_Call = tuple["Future[Any]", Callable[[], Any]]


class HandlerThreads:
    """Up to `most` threads, started as needed. Use it from one event loop."""

    def __init__(self, name: str, most: int) -> None:
        self._name: Final = name
        self._most: Final = most
        self._calls: Final[SimpleQueue[_Call | None]] = SimpleQueue()
        self._started = 0
        self._busy = 0

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function in a thread, and return or raise what it does; at most `most` calls at a time."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()
        self._busy += 1
        if self._busy > self._started < self._most:
            self._started += 1
            Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._calls.put((future, lambda: context.run(function, *arguments)))
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Take no more calls; don't wait for those that run."""
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except StopIteration as error:  # a future can't hold a StopIteration
                raised = RuntimeError("the handler raised StopIteration")
                raised.__cause__ = error
                future.set_exception(raised)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
