"""How long to wait before trying again: exponential, capped, and with jitter, so that a crowd does not return at one
moment."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """`next()` returns the seconds to wait, doubling from `first_s` to `most_s`, each between half and whole."""

    first_s: float = 0.05
    most_s: float = 1.0
    attempts: int = 0

    def next(self) -> float:
        whole = min(self.most_s, self.first_s * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return whole * random.uniform(0.5, 1.0)  # noqa: S311 - spreading load, not a secret

    def reset(self) -> None:
        self.attempts = 0
