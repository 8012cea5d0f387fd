"""Virtual time: one heap of events, one source of chance, and a hash of all that happened: a seed is a story."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from heapq import heappop, heappush
from random import Random
from typing import Any
from zlib import crc32


@cache
def _number_of(name: str) -> int:
    return crc32(name.encode())


class Schedule:
    """Events run in the order of their instants, and of their making where these are equal."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.trace = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0
        self._tell = tell

    def after(self, delay_s: float, event: Callable[..., object], *args: Any) -> None:
        self._made += 1
        heappush(self._heap, (self.now + delay_s, self._made, event, args))

    def step(self) -> None:
        """One event is handled."""
        self.now, _, event, args = heappop(self._heap)
        self.steps += 1
        name = event.__qualname__
        self.trace = (self.trace * 31 + int(self.now * 1e6) + _number_of(name)) & 0xFFFFFFFF
        if self._tell is not None:
            self._tell(f"{self.now:10.4f} {name} {args}")
        event(*args)

    def note(self, what: bytes) -> None:
        """Something that has to come out the same when the seed is run again."""
        self.trace = crc32(what, self.trace)

    def one_in(self, chance: float) -> bool:
        return self.random.random() < chance

    def run_until(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            self.step()
        self.now = max(self.now, now)
