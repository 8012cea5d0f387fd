"""Counts latencies in bounded memory, with percentiles accurate to a thousandth.

Each value up to 2047 µs has its own bucket; beyond that, the width of buckets doubles whenever the value doubles. A
percentile is therefore at most 0.1 % above the exact one. Average and maximum are exact. Every value is counted, so a
rare slow one is never lost to sampling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Self, TypedDict

_EXACT_BITS: Final = 11


class HistogramState(TypedDict):
    """A histogram as plain values."""

    counts: list[tuple[int, int]]
    total_us: int
    max_us: int


def bucket_of(value_us: int) -> int:
    """Return the largest value in the bucket of `value_us`, which represents all values of the bucket."""
    width = value_us.bit_length() - _EXACT_BITS
    return value_us if width <= 0 else value_us | ((1 << width) - 1)


class LatencyHistogram:
    """Latencies in whole microseconds, 0 or more. Not thread-safe."""

    __slots__ = ("_counts", "count", "max_us", "total_us")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total_us = 0
        self.max_us = 0

    def add(self, value_us: int, times: int = 1) -> None:
        """Count `value_us` this many times."""
        self._counts[bucket_of(value_us)] += times
        self.count += times
        self.total_us += value_us * times
        self.max_us = max(self.max_us, value_us)

    def add_all(self, values_us: Sequence[int]) -> None:
        """Count each of many values, several times as fast as with `add`."""
        if not values_us:
            return
        most = max(values_us)
        self._counts.update(values_us if most >> _EXACT_BITS == 0 else map(bucket_of, values_us))
        self.count += len(values_us)
        self.total_us += sum(values_us)
        self.max_us = max(self.max_us, most)

    def merge(self, other: Self) -> None:
        """Add the counts of `other`."""
        self._counts.update(other._counts)
        self.count += other.count
        self.total_us += other.total_us
        self.max_us = max(self.max_us, other.max_us)

    @property
    def mean_us(self) -> float:
        """The average, or 0 if nothing was counted."""
        return self.total_us / self.count if self.count else 0.0

    def percentile(self, percent: float) -> int:
        """Return the smallest value (µs) that at least `percent` of all values do not exceed; 0 if nothing was
        counted."""
        rank = self.count * percent / 100
        reached = 0
        for value_us in sorted(self._counts):
            reached += self._counts[value_us]
            if reached >= rank:
                return min(value_us, self.max_us)
        return 0

    def state(self) -> HistogramState:
        """Return the histogram as plain values for another process, which reads them with `from_state`."""
        return {"counts": list(self._counts.items()), "total_us": self.total_us, "max_us": self.max_us}

    @classmethod
    def from_state(cls, state: HistogramState) -> Self:
        """Make a histogram of the plain values that `state` has returned."""
        made = cls()
        made._counts.update(dict(state["counts"]))
        made.count = sum(made._counts.values())
        made.total_us, made.max_us = state["total_us"], state["max_us"]
        return made
