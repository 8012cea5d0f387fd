"""Long work in steps, as a generator: a decision runs it to its end at once, and a task in slices of the loop.

Each step takes much less than a slice, so the work yields after a bounded number of elements.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def finished(steps: Steps[T]) -> T:
    """Run the work to its end, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
