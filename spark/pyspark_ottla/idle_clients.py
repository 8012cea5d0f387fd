"""Clients of this process, kept from one task to the next: Spark's Python workers live for many of them.

A task has its client for itself. After one that failed its client goes, with all that it still held; after one that did
not it waits for the next task for a while.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Hashable, Iterator
from threading import Lock, Timer
from time import monotonic
from typing import Final, Generic, TypeVar

Client = TypeVar("Client")

IDLE_S: Final = 60.0
"""As long as Spark keeps a worker that has nothing to do."""

MOST: Final = 16
"""Each has a connection and threads. Spark's own source keeps 64 consumers, for all workers of an executor together."""


class IdleClients(Generic[Client]):
    """Lends clients of one kind, one to a task. Thread-safe.

    Those that have been idle for `idle_s` seconds, or up to twice that, are ended; and the oldest of them where there
    would be more than `most`.
    """

    def __init__(self, end: Callable[[Client], None], *, idle_s: float = IDLE_S, most: int = MOST) -> None:
        self._end: Final = end
        self._idle_s: Final = idle_s
        self._most: Final = most
        self._lock: Final = Lock()
        self._idle: dict[Hashable, tuple[Client, float]] = {}  # each with when it came, the oldest first
        self._sweep: Timer | None = None
        atexit.register(self.close)

    @contextlib.contextmanager
    def lent(
        self, key: Hashable, make: Callable[[], Client], prepare: Callable[[Client], None] = lambda _: None
    ) -> Iterator[Client]:
        """A client until the block ends: in order, or with what made the task fail. One that was kept for `key`, or
        else a new one, prepared for the task."""
        client = self._take(key)
        client = make() if client is None else client
        try:
            prepare(client)
            yield client
        except BaseException:
            self._end(client)
            raise
        self._put_back(key, client)

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for client, _ in idle.values():
            self._end(client)

    def _take(self, key: Hashable) -> Client | None:
        with self._lock:
            client, _ = self._idle.pop(key, (None, 0.0))
        return client

    def _put_back(self, key: Hashable, client: Client) -> None:
        with self._lock:
            ended = [client] if key in self._idle else []
            if not ended:
                self._idle[key] = client, monotonic()
            if len(self._idle) > self._most:
                ended.append(self._idle.pop(next(iter(self._idle)))[0])
            self._sweep_later()
        for each in ended:
            self._end(each)

    def _sweep_later(self) -> None:
        """One thread waits for all of them: to start one for each takes longer than a task of few rows."""
        if self._sweep is None and self._idle:
            self._sweep = Timer(self._idle_s, self._sweep_now)
            self._sweep.daemon = True
            self._sweep.start()

    def _sweep_now(self) -> None:
        with self._lock:
            over = [key for key, (_, since) in self._idle.items() if since + self._idle_s <= monotonic()]
            ended = [self._idle.pop(key)[0] for key in over]
            self._sweep = None
            self._sweep_later()
        for client in ended:
            self._end(client)
