"""How a case has ended for the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class How(Enum):
    """`MISSING`: the versions that the broker serves can't express the request."""

    RESPONSE = "response"
    ERROR = "error"
    CRASH = "crash"
    MISSING = "missing"


@dataclass(slots=True)
class Ending:
    """`words` are the error's, or a crash's traceback. `late_s` is how long after the deadline it came. `faults` are
    whatever else was wrong. If the client `was_asked` for nothing, as by acks=0, then no response proves anything. If
    it `was_refused`, the client has not sent the request."""

    how: How
    words: str = ""
    late_s: float = 0.0
    faults: list[str] = field(default_factory=list)
    was_asked: bool = True
    was_refused: bool = False
    seen: list[tuple[int, int]] = field(default_factory=list)
    was_done: bool = False
    seconds: float = 0.0
