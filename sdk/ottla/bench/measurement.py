"""What a benchmark has seen: windows of equal length, one after the other, and the total of all of them."""

from __future__ import annotations

from typing import Final

from ottla.bench.histogram import LatencyHistogram


class Window:
    """A window of time, in monotonic seconds, and what was sent and received in it.

    Attributes:
        sent, sent_bytes: records that were acknowledged, and the bytes of their keys and values; failed: not delivered.
        received, received_bytes: records that were read.
        backlog: records that are known to be there and were not read yet, when the window ended.
        publish: from handing a record over to its acknowledgement.
        delay: how much later than its schedule a record was handed over.
        end_to_end: from the moment at which a record was due to be handed over until it was read.
    """

    __slots__ = (
        "backlog",
        "began_at",
        "delay",
        "end_to_end",
        "ended_at",
        "failed",
        "publish",
        "received",
        "received_bytes",
        "sent",
        "sent_bytes",
    )

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.ended_at = began_at
        self.sent = 0
        self.sent_bytes = 0
        self.failed = 0
        self.received = 0
        self.received_bytes = 0
        self.backlog = 0
        self.publish = LatencyHistogram()
        self.delay = LatencyHistogram()
        self.end_to_end = LatencyHistogram()

    @property
    def seconds(self) -> float:
        """How long it was; never 0, so that rates can be taken."""
        return max(self.ended_at - self.began_at, 1e-9)

    def extend(self, later: Window) -> None:
        """Take in the window that follows."""
        self.ended_at = later.ended_at
        self.sent += later.sent
        self.sent_bytes += later.sent_bytes
        self.failed += later.failed
        self.received += later.received
        self.received_bytes += later.received_bytes
        self.backlog = later.backlog
        self.publish.merge(later.publish)
        self.delay.merge(later.delay)
        self.end_to_end.merge(later.end_to_end)


class Measurement:
    """`window` takes what happens now; `windows` are those that are over, and `total` is their sum."""

    def __init__(self, now: float, window_s: float) -> None:
        self.window = Window(now)
        self.windows: Final[list[Window]] = []
        self.total: Final = Window(now)
        self._window_s = window_s

    def roll(self, now: float) -> Window | None:
        """The window that is over by `now`, if it is; the next one begins."""
        return self._close(now) if now - self.window.began_at >= self._window_s else None

    def finish(self, now: float) -> None:
        """Nothing comes any more. A last window that is too short for a rate counts in the total alone."""
        last = self._close(now)
        if last.seconds < self._window_s / 2 and len(self.windows) > 1:
            self.windows.pop()

    def _close(self, now: float) -> Window:
        over, self.window = self.window, Window(now)
        over.ended_at = now
        self.windows.append(over)
        self.total.extend(over)
        return over
