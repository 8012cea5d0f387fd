"""The results of a benchmark: consecutive windows of equal length, and the total of all windows."""

from __future__ import annotations

from typing import Final

from ottla.bench.histogram import LatencyHistogram


class Window:
    """A window of time, in monotonic seconds, and the records that were sent and received in it.

    Attributes:
        sent, sent_bytes: acknowledged records, and the bytes of their keys and values; failed: records not delivered.
        received, received_bytes: records that were read.
        backlog: records known to be in the topic but not read yet when the window ended.
        publish: the time from the send of a record to its acknowledgement.
        delay: the time from the moment when a record was due until it was sent.
        end_to_end: the time from the moment when a record was due until it was read.
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
        """The length of the window; never 0, so that rates can be computed."""
        return max(self.ended_at - self.began_at, 1e-9)

    def extend(self, later: Window) -> None:
        """Add the window that follows this one."""
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
    """A running measurement: the current `window`, the finished `windows`, and their sum, `total`."""

    def __init__(self, now: float, window_s: float) -> None:
        self.window = Window(now)
        self.windows: Final[list[Window]] = []
        self.total: Final = Window(now)
        self._window_s = window_s

    def roll(self, now: float) -> Window | None:
        """Finish the current window if it is over at `now`, begin the next one, and return the finished one or None."""
        return self._close(now) if now - self.window.began_at >= self._window_s else None

    def finish(self, now: float) -> None:
        """End the measurement. If the last window is too short for a rate, it counts only in the total."""
        last = self._close(now)
        if last.seconds < self._window_s / 2 and len(self.windows) > 1:
            self.windows.pop()

    def _close(self, now: float) -> Window:
        over, self.window = self.window, Window(now)
        over.ended_at = now
        self.windows.append(over)
        self.total.extend(over)
        return over
