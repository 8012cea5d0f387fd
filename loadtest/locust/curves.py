"""How many users there are at which moment of a load test: the arithmetic of the shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Curve = Callable[[float, int, float], int]
"""(seconds since the start, the most users, seconds in all) → users at that moment, at least 1."""

RAMP_UP: Final = 0.6
SPIKE_FROM, SPIKE_TO = 0.4, 0.6
SPIKE_BASE: Final = 0.25


def ramp(elapsed_s: float, users: int, seconds: float) -> int:
    """Evenly up to all users for six tenths of the time, then all of them: where does it stop to scale?"""
    return max(1, min(users, round(users * elapsed_s / (seconds * RAMP_UP))))


def spike(elapsed_s: float, users: int, seconds: float) -> int:
    """A quarter of the users, all of them for the fifth in the middle, a quarter again: does it recover?"""
    in_spike = SPIKE_FROM <= elapsed_s / seconds < SPIKE_TO
    return users if in_spike else max(1, round(users * SPIKE_BASE))


def soak(elapsed_s: float, users: int, seconds: float) -> int:
    """All users all the time: does anything grow?"""
    return users


CURVES: Final[Mapping[str, Curve]] = {"ramp": ramp, "spike": spike, "soak": soak}


def users_at(curve: str, elapsed_s: float, users: int, seconds: float) -> int | None:
    """Users at a moment of the named curve; None once the time is over."""
    return None if elapsed_s >= seconds else CURVES[curve](elapsed_s, users, seconds)
