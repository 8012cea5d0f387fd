"""Answers that cost much are shared: all who ask the same question within a second get one answer.

It bounds what a client can make a coordinator do with many small requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from ottla_core.errors import ErrorCode, OttlaError

Question = TypeVar("Question")
Answer = TypeVar("Answer")

SHARED_S: Final = 1.0
_AT_ONCE: Final = 4
_MOST_KEPT: Final = 16
"""An answer may take megabytes while it is found, and while it is kept."""


class _Search(NamedTuple, Generic[Question, Answer]):
    question: Question
    answer: asyncio.Task[Answer]


class SharedAnswers(Generic[Question, Answer]):
    """`find(question)` may take `limit_s`. Its error goes to those who wait for it, and is not kept."""

    def __init__(self, find: Callable[[Question], Awaitable[Answer]], *, limit_s: float) -> None:
        self._find: Final = find
        self._limit_s: Final = limit_s
        self._places: Final = asyncio.Semaphore(_AT_ONCE)
        self._open: Final[dict[str, _Search[Question, Answer]]] = {}
        self._kept: Final[dict[str, _Search[Question, Answer]]] = {}

    async def of(self, key: str, question: Question) -> Answer:
        """Return the answer to a question. One is kept by each key, as long as the question about it stays equal.

        Raises what `find` raises, or REQUEST_TIMED_OUT.
        """
        for search in (self._kept.get(key), self._open.get(key)):
            if search is not None and search.question == question:
                return await asyncio.shield(search.answer)
        search = self._open[key] = _Search(question, asyncio.create_task(self._found(question)))
        search.answer.add_done_callback(partial(self._on_found, key, search))
        # A caller that no longer waits must not end the search for the others.
        return await asyncio.shield(search.answer)

    async def _found(self, question: Question) -> Answer:
        try:
            async with asyncio.timeout(self._limit_s), self._places:
                return await self._find(question)
        except TimeoutError:
            message = f"it took longer than {self._limit_s:g} s to find the answer"
            raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, message, hint="try again later") from None

    def _on_found(self, key: str, search: _Search[Question, Answer], found: asyncio.Task[Answer]) -> None:
        _drop(self._open, key, search)
        if found.cancelled() or found.exception() is not None:
            return
        if key not in self._kept and len(self._kept) == _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = search
        found.get_loop().call_later(SHARED_S, _drop, self._kept, key, search)


def _drop(searches: dict[str, _Search[Question, Answer]], key: str, search: _Search[Question, Answer]) -> None:
    if searches.get(key) is search:
        del searches[key]
