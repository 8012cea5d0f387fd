"""Failover: groups go on in the target, exactly where they were in the source. Failback: the other way round.

At failover the flow is paused first, so that a source that comes back changes nothing more in the target. Then the
mirror commits for each group by what the group has committed in the source, or by its last checkpoint if the source is
away. At failback it commits for groups in the source by their offsets in the copies, and the flow goes on.

If a group's offset has expired, because it rested for longer than offsets.retention.minutes, its last checkpoint
counts, either way.

Either way the answer names each partition of each group: where it goes on, or why it does not. A plan is that answer
before anything was changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import ottla
from ottla import OttlaError
from ottla_mirror.clusters.admin import CALL_S, Admin
from ottla_mirror.flow import Flow
from ottla_mirror.groups.group_offsets import GroupOffsets, commit
from ottla_mirror.machines.group_plan import Move
from ottla_mirror.machines.mirror_records import Checkpoint

_SETTLE_S: Final = 10.0
"""How long to wait until what is under way is copied, and until the offset syncs are known."""

_SOURCE_S: Final = 5.0
_STEP_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class GroupMoved:
    """What was done, or is planned, for a group. It is nothing if there is an `error`."""

    group: str
    positions: Sequence[Move] = field(default=())
    error: OttlaError | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """`source_reached` says that the groups' positions are those of this moment, and none of the last checkpoints."""

    source_reached: bool
    groups: Sequence[GroupMoved]


def fail_over(flow: Flow, groups: Sequence[str], *, dry_run: bool = False) -> Moved:
    """Fail over these groups, or all that exist or have checkpoints.

    Raises the error that prevents the pause, and an error if not all offset syncs are known in time.
    """
    if not dry_run:
        flow.state.order(paused=True)
        _settle(flow)
    _learn_syncs(flow)
    offsets = flow.group_offsets()
    try:
        offsets.load()
        try:
            present, reached = offsets.in_source(timeout=_SOURCE_S), True
            offsets.look_at_topics(with_source=True)
        except OttlaError:
            present, reached = [], False
            offsets.look_at_topics(with_source=False)

        def plan(group: str) -> list[Move]:
            nonlocal reached
            if reached:
                try:
                    committed = offsets.source.committed(group)
                except (ottla.ConnectError, ottla.TimeoutError):
                    reached = False  # the source is not waited for again for any other group
                else:
                    return offsets.forward_from_last(group, committed)
            return offsets.forward_by_checkpoints(group)

        moved = _all_moved(groups or present, offsets, plan, None if dry_run else offsets.target, all_=not groups)
        return Moved(reached, moved)
    finally:
        offsets.close()


def fail_back(flow: Flow, groups: Sequence[str], *, dry_run: bool = False) -> Moved:
    """Move these groups back to the source, or all groups that the target has or had.

    Raises if the source is not reached. Then nothing is changed.
    """
    _learn_syncs(flow)
    offsets = flow.group_offsets()
    try:
        offsets.in_source(timeout=_SOURCE_S)
        offsets.look_at_topics(with_source=True)
        offsets.load()
        present = groups or offsets.in_target(timeout=CALL_S)
        moved = _all_moved(present, offsets, offsets.back, None if dry_run else offsets.source, all_=not groups)
    finally:
        offsets.close()
    if not dry_run:
        flow.state.order(paused=False)
    return Moved(True, moved)


def last_positions(flow: Flow, group: str) -> list[Checkpoint]:
    """Return a group's positions in the copies, by its last checkpoints. It commits nothing. Raises if the target is
    away."""
    offsets = flow.group_offsets()
    try:
        offsets.load()
        return offsets.checkpoints(group)
    finally:
        offsets.close()


def _all_moved(
    groups: Sequence[str], offsets: GroupOffsets, plan: Callable[[str], list[Move]], to: Admin | None, *, all_: bool
) -> list[GroupMoved]:
    """Return what was done for these groups. With `all_`, groups that have only checkpoints left are included,
    as far as those lead to positions."""
    left = sorted({*offsets.checkpointed} - {*groups}) if all_ else []
    moved = [(group, _moved(group, plan, to)) for group in (*groups, *left)]
    return [each for group, each in moved if group in groups or each.positions or each.error]


def _moved(group: str, plan: Callable[[str], list[Move]], cluster: Admin | None) -> GroupMoved:
    """Move a group by committing in `cluster`. With None, only plan it."""
    try:
        moves = plan(group)
        if cluster is not None:
            commit(cluster, group, moves)
    except OttlaError as error:
        return GroupMoved(group, error=error)
    return GroupMoved(group, moves)


def _settle(flow: Flow) -> None:
    """Wait until this mirror copies nothing, but not longer than _SETTLE_S."""
    end_at = time.monotonic() + _SETTLE_S
    while flow.copier is not None and not flow.copier.paused and time.monotonic() < end_at:
        time.sleep(_STEP_S)


def _learn_syncs(flow: Flow) -> None:
    """Wait until all offset syncs are known. Raises REQUEST_TIMED_OUT if they are not in time: with half of a map a
    group would be moved too far back."""
    flow.syncs.catch_up(_SETTLE_S)
