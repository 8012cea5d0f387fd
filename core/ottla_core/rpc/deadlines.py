"""The deadlines of open calls, by number, so that one timer does for all of them.

Pure: the caller reads the clock and sets the timer.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

NEVER: Final = float("inf")

_SPARE: Final = 64


class Deadlines:
    """A number's deadline is set once. Then it either passes or is dropped."""

    def __init__(self) -> None:
        self._at: Final[dict[int, float]] = {}
        self._heap: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._at)

    def set(self, number: int, at: float) -> None:
        self._at[number] = at
        heappush(self._heap, (at, number))
        # Most calls end long before their deadline. What they leave in the heap must not outgrow what is open.
        if len(self._heap) > 2 * len(self._at) + _SPARE:
            self._heap = [(at, number) for number, at in self._at.items()]
            heapify(self._heap)

    def drop(self, number: int) -> None:
        self._at.pop(number, None)

    @property
    def next_at(self) -> float:
        """This is the earliest deadline, or NEVER if there is none."""
        while self._heap:
            at, number = self._heap[0]
            if number in self._at:
                return at
            heappop(self._heap)
        return NEVER

    def pop_passed(self, now: float) -> int | None:
        """Drop the number whose deadline passed first, and return it, or None if no deadline has passed."""
        if self.next_at > now:
            return None
        number = heappop(self._heap)[1]
        del self._at[number]
        return number
