"""The phases of an owner and every way from one to the next are one table. Nothing else changes an owner's phase.

An owner that went back to loading, or served after it was fenced, would respond from a state that no log proves. So
there is no way back in this table: LEFT has no successor, and a shard that is to be served again gets a new owner. A
pair that is missing can't occur, and raises KeyError if it does. A test drives an owner through every result of its
calls and compares.

The diagram in docs/design/coordination.md is drawn from here (tools/state_diagrams.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Phase(Enum):
    FENCING = "fencing"
    LOADING = "loading"
    SERVING = "serving"
    LEFT = "left"


class OwnerEvent(Enum):
    FENCE_COMMITTED = "the own fence is below the high watermark"
    LOADED = "all records up to the own fence are read back"
    DEPOSED = "another owner has a higher fence"
    DIVERGED = "the log is not what the state is made of, or never takes the batch"
    FAILED = "a bug: the state can't be trusted"
    RELEASED = "the shard is given to another owner, or the process stops"


NEXT_PHASE: Final[Mapping[tuple[Phase, OwnerEvent], Phase]] = {
    (Phase.FENCING, OwnerEvent.FENCE_COMMITTED): Phase.LOADING,
    (Phase.FENCING, OwnerEvent.DEPOSED): Phase.LEFT,
    (Phase.FENCING, OwnerEvent.FAILED): Phase.LEFT,
    (Phase.FENCING, OwnerEvent.RELEASED): Phase.LEFT,
    (Phase.LOADING, OwnerEvent.LOADED): Phase.SERVING,
    (Phase.LOADING, OwnerEvent.DIVERGED): Phase.LEFT,
    (Phase.LOADING, OwnerEvent.FAILED): Phase.LEFT,
    (Phase.LOADING, OwnerEvent.RELEASED): Phase.LEFT,
    (Phase.SERVING, OwnerEvent.DEPOSED): Phase.LEFT,
    (Phase.SERVING, OwnerEvent.DIVERGED): Phase.LEFT,
    (Phase.SERVING, OwnerEvent.FAILED): Phase.LEFT,
    (Phase.SERVING, OwnerEvent.RELEASED): Phase.LEFT,
}

NEEDS_EPOCH: Final = frozenset({OwnerEvent.DIVERGED, OwnerEvent.FAILED})
"""Events after which the controller has to give the shard a new epoch: as far as this owner knows, there is no other
owner, and under its own epoch none would serve the shard. After DEPOSED another owner has it already."""
