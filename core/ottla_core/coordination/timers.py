"""Time as a coordinator counts it: a clock that leaves out the gaps of the process, and timers by key.

A process that was stopped for a minute (SIGSTOP, a suspended machine), or got no processor for seconds, continues with
its deadlines behind it, and its members' heartbeats in the sockets: it would evict all of them. So the deadlines move
by the gap (rule 10 of coordination). Nothing is moved one by one: the clock by which they are set stands still during
the gap.

Pure: the caller reads the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

GAP_S: Final = 1.0
TICK_S: Final = 0.25
"""How often the loop shows its clock that it is awake. It is well below GAP_S, so that an idle loop leaves no gap."""

NEVER: Final = float("inf")

REJECTED_S: Final = 10.0
"""How long it takes until a timer whose decision was rejected goes off again."""

TimerKey = Hashable


class Moment(NamedTuple):
    """`at` is in seconds of a `LoopClock`, by which waits are measured. `wall_ms` dates records."""

    at: float
    wall_ms: int


class LoopClock:
    """Seconds that only grow, and stand still while the process does. The clock has to be read at every event."""

    def __init__(self, monotonic: float) -> None:
        self.gap_s = 0.0
        """It is the gap that the last look left out. What is timed by this clock is older than it says by this gap."""
        self._seen = monotonic
        self._left_out = 0.0

    def on_time(self, monotonic: float) -> float:
        """Return the time, given what the monotonic clock says. `gap_s` is above 0 if this is the first look after a
        gap."""
        gap_s = monotonic - self._seen
        self._seen = monotonic
        self.gap_s = gap_s if gap_s > GAP_S else 0.0
        self._left_out += self.gap_s
        return monotonic - self._left_out

    def monotonic_at(self, at: float) -> float:
        """Return the time of the monotonic clock at the instant `at`, if there is no gap until then."""
        return at + self._left_out


class Timers:
    """Timers with at most one instant per key. Setting a key again moves it.

    `rejected` has the reason for each timer that was set again because its decision was rejected.
    """

    def __init__(self) -> None:
        self.rejected: Final[dict[TimerKey, str]] = {}
        self._at: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, int, TimerKey]] = []
        self._order: Final[Iterator[int]] = count()  # keys of one instant go off in the order in which they were set

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: TimerKey, at: float | None) -> None:
        """Set a key's instant. `None` cancels it."""
        self.rejected.pop(key, None)
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            heappush(self._heap, (at, next(self._order), key))
            self._tidy()

    def set_again(self, key: TimerKey, now: float, reason: str) -> None:
        """Set a timer again whose decision was rejected, because nothing else may ever end its transaction or its
        member."""
        self.set(key, now + REJECTED_S)
        self.rejected[key] = reason

    @property
    def next_at(self) -> float:
        """This is when the next timer goes off, or NEVER if there is none."""
        while self._heap:
            at, _, key = self._heap[0]
            if self._at.get(key) == at:
                return at
            heappop(self._heap)  # moved or cancelled since
        return NEVER

    def pop_due(self, now: float) -> TimerKey | None:
        """Take out the key that was due first, and return it. Return None if nothing is due."""
        if self.next_at > now:
            return None
        key = heappop(self._heap)[2]
        del self._at[key]
        self.rejected.pop(key, None)
        return key

    def shift(self, by_s: float) -> None:
        """Let all timers go off later."""
        self._at = {key: at + by_s for key, at in self._at.items()}
        # it is still a heap, because all entries move alike
        self._heap = [(at + by_s, order, key) for at, order, key in self._heap]

    def _tidy(self) -> None:
        """Remove old entries from the heap. A session's timer moves at every heartbeat, and what that leaves must not
        outgrow what is set."""
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = sorted(entry for entry in self._heap if self._at.get(entry[2]) == entry[0])
