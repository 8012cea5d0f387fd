"""Does the work of many connections in several turns of the loop, because one turn with all of it would take too long.
The addresses of the clients take turns, so that one with very many connections does not hold up the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla_broker.kafka.network.by_host import ByHost
from ottla_core.event_loop.slices import SLICE_S, Slice

_log = logging.getLogger(__name__)


class Turns:
    """Does the work of each address in the order in which it was requested, and lets the loop serve others after each
    `slice_s`. The remaining work then waits for `pause_s`.

    One piece of work is not interrupted, so each should take about a millisecond at most.
    """

    def __init__(self, slice_s: float = SLICE_S, pause_s: float = 0.0) -> None:
        self._slice_s: Final = slice_s
        self._pause_s: Final = pause_s
        self._waiting: Final[ByHost[Callable[[], None]]] = ByHost()
        self._is_due = False

    def take(self, host: str, work: Callable[[], None]) -> None:
        """Do the work for a client of that address in one of the next turns of the loop. If the work waits already, it
        is done only once."""
        self._waiting.add(host, work)
        self._run_after(0.0)

    def drop(self, host: str, work: Callable[[], None]) -> None:
        """Forget the work, if it waits."""
        self._waiting.drop(host, work)

    def _run_after(self, seconds: float) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()
            if seconds:
                loop.call_later(seconds, self._run)
            else:
                loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        slice_ = Slice(self._slice_s)
        while self._waiting:
            try:
                self._waiting.next()()
            except Exception:  # a bug in one connection must not stop the others
                _log.exception("work on a Kafka connection failed")
            if slice_.is_over:
                break
        self._run_after(self._pause_s)
