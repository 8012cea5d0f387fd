"""The thread of one client that waits for all its sockets, and for the deadlines of its calls.

It starts with the first line and ends with the last one. It alone reads from sockets, connects and closes them, and
reports how calls have ended. Other threads hand it work: they note it where the thread will look, and then wake it.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
from collections import deque
from threading import RLock, Thread, current_thread
from typing import Final
from weakref import WeakKeyDictionary

from ottla.client.kafka.sockets.line import Line
from ottla.client.kafka.sockets.logins import LoginThreads
from ottla.client.kafka.sockets.protection import OPEN, Protection
from ottla_core.clock import Clock
from ottla_core.forks import in_children
from ottla_core.rpc.deadlines import NEVER

_log = logging.getLogger("ottla.network")

_WAKE_BYTES: Final = 4096
_networks: Final[WeakKeyDictionary[Network, None]] = WeakKeyDictionary()


class Network:
    """The lines of one client. Thread-safe; never blocks."""

    def __init__(self, client_id: str, software_version: str, clock: Clock, protection: Protection = OPEN) -> None:
        self.client_id: Final = client_id
        self.protection: Final = protection
        self.software_version: Final = software_version
        self.clock: Final = clock
        self.logins: Final = LoginThreads()
        self._lock: Final = RLock()  # a signal handler may make a call, too
        self._lines: Final[dict[Line, None]] = {}
        self._thread: Thread | None = None
        self._selector: selectors.BaseSelector | None = None
        self._waker: socket.socket | None = None
        self._woken: Final[deque[Line]] = deque()
        self._sleeps_until = NEVER
        """The thread has to be woken for anything that is due before this time. The value is -NEVER while the thread is
        awake, since it will look again before it sleeps. It is NEVER while the thread looks."""
        _networks[self] = None

    def add(self, line: Line) -> None:
        """Have the line connect, and look after it until it is over."""
        with self._lock:
            self._lines[line] = None
            if self._thread is None or not self._thread.is_alive():
                self._start()
        line.connect()
        self.wake(line)

    def has(self, line: Line) -> bool:
        """Whether the thread looks after this line. It does so until the line is over."""
        return line in self._lines

    def wake(self, line: Line) -> None:
        """Have the thread look after this line."""
        self._woken.append(line)
        waker = self._waker
        if waker is not None:
            with contextlib.suppress(OSError):  # if it is full, the thread will wake; if it is closed, no line is left
                waker.send(b"\0")

    def is_due(self, at: float) -> bool:
        """Whether the thread has to be woken to be awake at that time."""
        return at < self._sleeps_until

    @property
    def is_current(self) -> bool:
        """Whether the current thread is the network's own."""
        return current_thread() is self._thread

    def register(self, line: Line, connection: socket.socket, *, writes: bool) -> None:
        """Wait for this socket from now on. Only the network's thread may call this."""
        assert self._selector is not None
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
        try:
            self._selector.modify(connection, events, line)
        except KeyError:
            self._selector.register(connection, events, line)

    def unregister(self, connection: socket.socket) -> None:
        assert self._selector is not None
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection)

    def abandon(self) -> None:
        """Close a forked child's copies of the descriptors. It touches nothing else, because the rest belongs to the
        parent."""
        for line in list(self._lines):
            line.abandon()
        if self._selector is not None:
            self._selector.close()
        if self._waker is not None:
            self._waker.close()

    def _start(self) -> None:
        selector = selectors.DefaultSelector()
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        selector.register(woken, selectors.EVENT_READ)
        name = f"ottla-network-{self.client_id}"
        thread = Thread(target=self._run, args=(selector, woken), name=name, daemon=True)
        # These are set in one step. A signal handler that runs before or after it may add a line and so start another
        # thread. The thread that is not current then sees this, and ends.
        self._selector, self._waker, self._thread = selector, waker, thread
        thread.start()

    def _run(self, selector: selectors.BaseSelector, woken: socket.socket) -> None:
        while self.is_current and self._goes_on():
            self._sleeps_until = NEVER
            until = min((line.due_at for line in list(self._lines)), default=NEVER)
            self._sleeps_until = until
            events = selector.select(None if until == NEVER else max(0.0, until - self.clock.monotonic()))
            self._sleeps_until = -NEVER
            for key, mask in events:
                if key.data is None:
                    woken.recv(_WAKE_BYTES)
                else:
                    self._look_after(key.data, reads=bool(mask & selectors.EVENT_READ))
            while self._woken:
                self._look_after(self._woken.popleft())
            now = self.clock.monotonic()
            for line in [line for line in list(self._lines) if line.due_at <= now]:
                self._look_after(line)
        selector.close()
        woken.close()

    def _goes_on(self) -> bool:
        """Return whether the thread goes on. If it does not, the next line starts another one.

        It does not wait for the lock. A signal handler may have interrupted the thread that holds it, and the handler
        may wait for this thread. Besides, the holder of the lock is adding a line.
        """
        if self._lines or not self._lock.acquire(blocking=False):
            return True
        try:
            if self._lines or self._waker is None:
                return True
            self._waker.close()
            self._thread = self._waker = self._selector = None
            return False
        finally:
            self._lock.release()

    def _look_after(self, line: Line, *, reads: bool = False) -> None:
        try:
            is_over = line.look_after(reads=reads)
        except BaseException:  # without this thread no call would ever end
            _log.exception("the line to %s failed", line.address)
            is_over = line.fail()
        if is_over:
            self._lines.pop(line, None)


def _abandon_all() -> None:
    for network in list(_networks):
        network.abandon()
    _networks.clear()


in_children(_abandon_all)
