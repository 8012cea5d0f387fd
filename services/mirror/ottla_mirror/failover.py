"""Failover: groups go on in the target, exactly where they were in the source. Failback: the other way round.

At failover the flow is paused first, so that a source that comes back changes nothing more in the target. Then each
group is committed for by what it has committed in the source, or by its last checkpoint where the source is away.
At failback groups are committed for in the source by what they have had of the copies, and the flow goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import ottla
from ottla import OttlaError
from ottla_mirror.clusters.cluster import CALL_S
from ottla_mirror.flow import Flow
from ottla_mirror.machines.group_plan import PositionMoved
from ottla_mirror.machines.mirror_records import Checkpoint

_SETTLE_S: Final = 10.0
"""For what is under way to be copied, and known."""

_SOURCE_S: Final = 5.0
_STEP_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class GroupMoved:
    """A group has been committed for at those positions; or `error` says why it was not."""

    group: str
    positions: Sequence[PositionMoved]
    error: OttlaError | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """`source_reached`: the groups' positions are those of this moment, and none of the last checkpoints."""

    source_reached: bool
    groups: Sequence[GroupMoved]


def fail_over(flow: Flow, groups: Sequence[str]) -> Moved:
    """Of these groups, or of all that there are. Raises what keeps the flow from being paused."""
    flow.state.order(paused=True)
    offsets = flow.group_offsets()
    try:
        _settle(flow)
        offsets.load()
        try:
            named, reached = offsets.in_source(timeout=_SOURCE_S), True
        except OttlaError:
            named, reached = offsets.last_known, False

        def move(group: str) -> list[PositionMoved]:
            nonlocal reached
            if reached:
                try:
                    committed = offsets.source.committed(group)
                except (ottla.ConnectError, ottla.TimeoutError):
                    reached = False  # nor is it waited for again for any other group
                else:
                    return offsets.carry(group, committed, everything=True)
            return offsets.carry_last_known(group)

        moved = _each(groups or named, move)
        return Moved(reached, moved)
    finally:
        offsets.close()


def last_positions(flow: Flow, group: str) -> list[Checkpoint]:
    """Of a group in the copies, by its last checkpoints; nothing is committed. Raises where the target is away."""
    offsets = flow.group_offsets()
    try:
        offsets.load()
        return offsets.positions(group)
    finally:
        offsets.close()


def fail_back(flow: Flow, groups: Sequence[str]) -> Moved:
    """Of these groups, or of all that the target has. Raises where the source is not reached: nothing is changed."""
    offsets = flow.group_offsets()
    try:
        offsets.in_source(timeout=_SOURCE_S)
        known = [group for group in offsets.target.groups(CALL_S) if flow.settings.takes_group(group)]
        moved = Moved(True, _each(groups or known, offsets.bring_back))
    finally:
        offsets.close()
    flow.state.order(paused=False)
    return moved


def _each(groups: Sequence[str], move: Callable[[str], list[PositionMoved]]) -> list[GroupMoved]:
    moved = []
    for group in groups:
        try:
            moved.append(GroupMoved(group, move(group)))
        except OttlaError as error:
            moved.append(GroupMoved(group, [], error))
    return moved


def _settle(flow: Flow) -> None:
    """Until this mirror copies nothing, and knows all syncs that were written by then; or for a while."""
    end_at = time.monotonic() + _SETTLE_S
    while flow.copier is not None and not flow.copier.paused and time.monotonic() < end_at:
        time.sleep(_STEP_S)
    with suppress(OttlaError):
        flow.syncs.catch_up(max(0.0, end_at - time.monotonic()))
