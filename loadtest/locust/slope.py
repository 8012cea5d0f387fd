"""How fast resident memory grows: a straight line through the samples, the settling-in at the beginning left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Sample = tuple[float, float]
"""Seconds since the start, resident MB."""

SETTLING: Final = 0.2
"""Share of the time that does not count: 2 of 10 minutes, in which caches fill and the allocator finds its size."""

MAX_MB_PER_MIN: Final = 1.0
ENOUGH_MINUTES: Final = 10.0
"""In less, settling in is most of what memory does."""


def settled(samples: Sequence[Sample]) -> list[Sample]:
    """Those after the settling-in."""
    if not samples:
        return []
    from_s = samples[0][0] + SETTLING * (samples[-1][0] - samples[0][0])
    return [sample for sample in samples if sample[0] >= from_s]


def slope_mb_per_min(samples: Sequence[Sample]) -> float:
    """The least-squares slope of all of `samples`; 0 for fewer than two moments."""
    if not samples:
        return 0.0
    mean_s = sum(at for at, _ in samples) / len(samples)
    mean_mb = sum(mb for _, mb in samples) / len(samples)
    spread = sum((at - mean_s) ** 2 for at, _ in samples)
    if not spread:
        return 0.0
    return 60 * sum((at - mean_s) * (mb - mean_mb) for at, mb in samples) / spread


def growing(slopes: Mapping[str, float], minutes: float) -> list[str]:
    """A sentence for each service that grew too fast in a test of so many minutes."""
    if minutes < ENOUGH_MINUTES:
        return []
    too_fast = ((name, slope) for name, slope in slopes.items() if slope > MAX_MB_PER_MIN)
    return [f"{name} grows by {slope:.2f} MB a minute, above {MAX_MB_PER_MIN:g}" for name, slope in too_fast]
