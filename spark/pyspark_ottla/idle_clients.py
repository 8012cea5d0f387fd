"""Clients of this process are kept from one task to the next, because Spark's Python workers run many tasks.

A task has its client for itself. After a task that failed, its client goes, with all that it still held. Otherwise the
client waits for the next task for a while.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Hashable, Iterator
from threading import Lock, Timer
from time import monotonic
from typing import Final, Generic, TypeVar

from ottla.errors import AuthenticationError

Client = TypeVar("Client")

IDLE_S: Final = 60.0
"""Spark keeps a worker without work for as long."""

MOST: Final = 16
"""The most idle clients. Each has a connection and threads. Spark's own source keeps 64 consumers, for all workers of
an executor together."""


class IdleClients(Generic[Client]):
    """Lends clients of one kind, one to a task. Thread-safe.

    Clients that have been idle for `idle_s` seconds, or up to twice that, are ended. So are the oldest of them if there
    would be more than `most`.
    """

    def __init__(self, end: Callable[[Client], None], *, idle_s: float = IDLE_S, most: int = MOST) -> None:
        self._end: Final = end
        self._idle_s: Final = idle_s
        self._most: Final = most
        self._lock: Final = Lock()
        self._idle: dict[Hashable, tuple[Client, float]] = {}  # each with its time of return, the oldest first
        self._sweep: Timer | None = None
        atexit.register(self.close)

    @contextlib.contextmanager
    def lent(
        self, key: Hashable, make: Callable[[], Client], prepare: Callable[[Client], None] = lambda _: None
    ) -> Iterator[Client]:
        """Lend a client until the block ends. It is the one that was kept for `key`, or else a new one, prepared for
        the task. If the block raises, the client is ended. If its login was rejected, all idle clients are, because
        they may have the old password, too."""
        client = self._take(key)
        client = make() if client is None else client
        try:
            prepare(client)
            yield client
        except BaseException as error:
            self._end(client)
            if isinstance(error, AuthenticationError):
                self.close()
            raise
        self._put_back(key, client)

    def close(self) -> None:
        """End the clients that are idle."""
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
        """Start one thread that waits for all clients. A thread for each would take longer to start than a task of few
        rows takes."""
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
