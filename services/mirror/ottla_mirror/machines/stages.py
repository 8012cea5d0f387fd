"""A copied partition is in one stage at a time, and a table says which event moves it to which stage.

HELD nothing of it is read: the flow is paused, or what was ordered for the flow is not known yet READ the source's
reader has it ASIDE it could not be copied, and is read again after a while GONE this mirror copies it no more
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Stage(Enum):
    """A partition begins as HELD."""

    HELD = "held"
    READ = "read"
    ASIDE = "aside"
    GONE = "gone"


class Event(Enum):
    """The flow, the clock and the target tell a partition these events."""

    PAUSED = "paused"
    RESUMED = "resumed"
    RESUMED_FAILED = "resumed, though it could not be copied before"
    FAILED = "failed"
    DUE = "due"
    """The time after which it is tried again has passed."""

    GIVEN_UP = "given up"


NEXT: Final[Mapping[tuple[Stage, Event], Stage]] = MappingProxyType(
    {
        (Stage.HELD, Event.RESUMED): Stage.READ,
        (Stage.HELD, Event.RESUMED_FAILED): Stage.ASIDE,
        (Stage.HELD, Event.FAILED): Stage.HELD,  # a batch was in flight when the flow was paused
        (Stage.HELD, Event.GIVEN_UP): Stage.GONE,
        (Stage.READ, Event.PAUSED): Stage.HELD,
        (Stage.READ, Event.FAILED): Stage.ASIDE,
        (Stage.READ, Event.GIVEN_UP): Stage.GONE,
        (Stage.ASIDE, Event.PAUSED): Stage.HELD,
        (Stage.ASIDE, Event.DUE): Stage.READ,
        (Stage.ASIDE, Event.FAILED): Stage.ASIDE,  # its copy can't be filled, or the target is away
        (Stage.ASIDE, Event.GIVEN_UP): Stage.GONE,
        (Stage.GONE, Event.FAILED): Stage.GONE,  # a batch was in flight when it was given up
    }
)
"""Any other pair is a bug in the copier."""
