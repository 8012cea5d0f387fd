"""The replica that a consumer is sent to: an in-sync one in its own rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable

from ottla_broker.machines.partition import Leader


def find_closest(
    leader: Leader, leader_id: int, rack_of: Callable[[int], str | None], rack: str, offset: int
) -> int | None:
    """Return the in-sync follower in `rack` that has `offset`, and of several the one with the longest log, or None if
    the leader will do.

    `rack_of` knows the live brokers.
    """
    if rack_of(leader_id) == rack:
        return None
    ends = leader.end_offsets()
    near = [r for r in leader.isr if r != leader_id and rack_of(r) == rack and leader.has_offset(r, offset)]
    return max(near, key=lambda r: ends[r], default=None)
