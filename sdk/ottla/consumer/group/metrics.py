"""The metrics of a group member, with Kafka's names and units."""

from __future__ import annotations

from typing import Final

from ottla.consumer.group.assignment import GroupAssignment
from ottla.machines.membership import NEVER

METRICS: Final = {
    "rebalance-total": "rebalances in which this member received its assignment",
    "commit-total": "commits that the group accepted",
    "generation": "generation of the group; -1 while the consumer is not a member (not a Kafka metric)",
    "last-heartbeat-seconds-ago": "seconds since the last heartbeat was sent; -1 before the first",
    "last-poll-seconds-ago": "seconds since the last poll; -1 before the first",
}
"""Names and meanings. Totals are since the consumer was created."""


def group_metrics(group: GroupAssignment, now: float) -> dict[str, float]:
    """Return the values of METRICS; `now` is monotonic seconds. Any thread."""
    with group.lock:
        member = group.member
        return {
            "rebalance-total": float(group.rebalances),
            "commit-total": float(group.commits.count),
            "generation": float(member.generation),
            "last-heartbeat-seconds-ago": _seconds_ago(member.heartbeat_sent_at, now),
            "last-poll-seconds-ago": _seconds_ago(member.polled_at, now),
        }


def _seconds_ago(at: float, now: float) -> float:
    return -1.0 if at == NEVER else max(0.0, now - at)
