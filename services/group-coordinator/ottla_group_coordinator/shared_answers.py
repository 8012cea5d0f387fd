"""Answers that cost much are shared: all who ask about one thing within a second get one answer.

It bounds what a client can make a coordinator do with many small requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeVar

from ottla_core.errors import ErrorCode, OttlaError

Answer = TypeVar("Answer")

SHARED_S: Final = 1.0
_AT_ONCE: Final = 4
_MOST_KEPT: Final = 16
"""An answer may take megabytes while it is found, and while it is kept."""


class SharedAnswers(Generic[Answer]):
    """`find(key)` may take `limit_s`. Its error goes to those who wait for it, and is not kept."""

    def __init__(self, find: Callable[[str], Awaitable[Answer]], *, limit_s: float) -> None:
        self._find: Final = find
        self._limit_s: Final = limit_s
        self._places: Final = asyncio.Semaphore(_AT_ONCE)
        self._searches: Final[dict[str, asyncio.Task[Answer]]] = {}
        self._kept: Final[dict[str, Answer]] = {}

    async def of(self, key: str) -> Answer:
        """Return the answer about a key. Raises what `find` raises, or REQUEST_TIMED_OUT."""
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        search = self._searches.get(key)
        if search is None:
            search = self._searches[key] = asyncio.create_task(self._found(key))
            search.add_done_callback(partial(self._on_found, key))
        # A caller that no longer waits must not end the search for the others.
        return await asyncio.shield(search)

    async def _found(self, key: str) -> Answer:
        try:
            async with asyncio.timeout(self._limit_s), self._places:
                return await self._find(key)
        except TimeoutError:
            message = f"it took longer than {self._limit_s:g} s to find the answer"
            raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, message, hint="try again later") from None

    def _on_found(self, key: str, search: asyncio.Task[Answer]) -> None:
        del self._searches[key]
        if search.cancelled() or search.exception() is not None:
            return
        if len(self._kept) == _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = search.result()
        search.get_loop().call_later(SHARED_S, self._drop, key, search.result())

    def _drop(self, key: str, answer: Answer) -> None:
        if self._kept.get(key) is answer:
            del self._kept[key]
