"""This module searches for fewer items, or for a smaller number, that are still red.

It knows nothing of the world. The caller says what is red, and may be wrong now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], is_red: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return the fewest of the items that were found to be red together (Zeller's ddmin).

    All items together have to be red. They keep their order. No single item can be left out of the result, unless
    `is_red` answers differently at another time.
    """
    kept, parts = list(items), 2
    if kept and is_red([]):
        return []
    while len(kept) > 1:
        size = -(-len(kept) // parts)
        for begin in range(0, len(kept), size):
            rest = [*kept[:begin], *kept[begin + size :]]
            if is_red(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(kept))
    return kept


def least(high: float, precision: float, is_red: Callable[[float], bool]) -> float:
    """Return the least red number from 0 to `high` that bisection finds. `high` has to be red."""
    low = 0.0
    while high - low > precision:
        middle = round((low + high) / 2, 1)
        if not low < middle < high:
            break
        low, high = (low, middle) if is_red(middle) else (middle, high)
    return high
