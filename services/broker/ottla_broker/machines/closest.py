"""Which replica a consumer is sent to: an in-sync one in its own rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla_broker.machines.partition import Leader


def find_closest(leader: Leader, leader_id: int, racks: Mapping[int, str], rack: str, offset: int) -> int | None:
    """The in-sync follower in `rack` with the longest log that reaches to `offset`; None where the leader will do.

    `racks` has the live brokers.
    """
    if racks.get(leader_id) == rack:
        return None
    ends = leader.end_offsets()
    near = [r for r in leader.isr if r != leader_id and racks.get(r) == rack and ends[r] >= offset]
    return max(near, key=lambda r: ends[r], default=None)
