"""How a producer ends: when it is closed, when it is garbage-collected, and when the process ends.

This module refers only to the producer's parts, which its threads keep alive, so it can close them after the producer
itself is garbage.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import weakref
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.errors import OttlaError
from ottla.producer.delivery import Announcer
from ottla.producer.sender import Sender
from ottla.producer.target import Target
from ottla.producer.transaction_manager import TransactionManager
from ottla_core.forks import in_children

logger = logging.getLogger("ottla.producer")

_LAST_CALLBACKS_S: Final = 1.0
"""The least time for the last callbacks, even if the time of a close is over."""

_CLOSE_AT_EXIT_S: Final = 5.0

_ABORT_S: Final = 5.0
"""How long a close tries to abort an open transaction; after that the coordinator does, when it times out."""

_GARBAGE: Final = "because it was garbage-collected"

_open: Final[dict[Closing, None]] = {}
"""The Closing of each producer that has not ended."""


@dataclass(eq=False)
class Closing:
    """Closes one producer."""

    cluster: ClusterClient
    sender: Sender
    manager: TransactionManager | None
    announcer: Announcer
    targets: dict[str, Target]
    closed: bool = False
    ended: Event = field(default_factory=Event)

    def watch(self, producer: object) -> None:
        """Close when `producer` is garbage-collected, or when the process ends."""
        _open[self] = None
        weakref.finalize(producer, self._on_garbage).atexit = False

    def close(self, limit_s: float, quiet_s: float = float("inf"), *, unasked: str = "") -> None:
        """Close, with a line in the log after `quiet_s` seconds of waiting, and one at once if it is `unasked`."""
        deadline_at = self.cluster.clock.monotonic() + limit_s
        with self.sender.lock:
            self.sender.end_by(deadline_at)
            if self.closed:
                return
            self.closed = True
        try:
            if unasked:
                logger.warning("%s was not closed; closing it %s", self.announcer.name, unasked)
            self._end(limit_s, quiet_s, deadline_at)
        finally:
            _open.pop(self, None)
            self.ended.set()
        self.announcer.raise_failures()

    def _end(self, limit_s: float, quiet_s: float, deadline_at: float) -> None:
        try:
            if self.manager is not None:
                self.manager.close(min(limit_s, _ABORT_S))
            if not self.sender.flush(min(quiet_s, limit_s)) and quiet_s < limit_s:
                message = "%s: batches not acknowledged yet: %d; waiting for up to %g s more, or until another Ctrl-C"
                left = len(self.sender.accumulator.incomplete)
                logger.warning(message, self.announcer.name, left, limit_s - quiet_s)
                self.sender.flush(limit_s - quiet_s)
        except BaseException:  # such as that other Ctrl-C
            deadline_at = 0.0
            raise
        finally:
            self.sender.close()
            self.cluster.close()
            self.announcer.close(max(_LAST_CALLBACKS_S, deadline_at - self.cluster.clock.monotonic()))

    def _on_garbage(self) -> None:
        """Close on another thread, because the garbage collector may call this anywhere, whatever locks are held.

        It is a daemon thread, because starting any other takes a lock of `threading`.
        """
        if not self.closed and not self.announcer.guard.foreign:
            limit_s, name = self.sender.accumulator.limits.delivery_timeout_s, f"ottla-goodbye-{self.announcer.name}"
            Thread(target=self.close_unasked, args=(limit_s, _GARBAGE), name=name, daemon=True).start()

    def close_unasked(self, limit_s: float, reason: str) -> None:
        """Close a producer that its owner did not close."""
        with contextlib.suppress(OttlaError):  # failures have been logged
            self.close(limit_s, unasked=reason)


def _disown() -> None:
    """Mark producers in a child after a fork: code that runs for each record does not check the process id."""
    for closing in _open:
        closing.targets.clear()
        closing.announcer.disowned = True
    _open.clear()


in_children(_disown)


@atexit.register
def _close_at_exit() -> None:
    """Send what a script that never closed its producers has left in their buffers."""
    closings = [closing for closing in list(_open) if not closing.announcer.guard.foreign]
    for closing in closings:
        closing.close_unasked(_CLOSE_AT_EXIT_S, "at exit")
    give_up_at = monotonic() + _CLOSE_AT_EXIT_S + _LAST_CALLBACKS_S
    for closing in closings:  # other threads may still be closing some
        closing.ended.wait(max(0.0, give_up_at - monotonic()))
