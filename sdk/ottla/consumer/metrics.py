"""The metrics of a consumer, with Kafka's names and units."""

from __future__ import annotations

from typing import Final

from ottla.machines.subscription import SubscriptionState

METRICS: Final = {
    "records-consumed-total": "records returned",
    "bytes-consumed-total": "bytes of their batches, as received",
    "fetch-total": "fetches that were answered",
    "fetch-latency-avg": "ms from a fetch to its response, which waits for records for up to fetch_max_wait",
    "fetch-latency-max": "the longest such time, in ms",
    "records-lag-max": "how far the partition furthest behind is behind, as of its last fetch; -1 before the first",
    "assigned-partitions": "partitions that are read",
    "position-reset-total": "positions that were not in the log and went to auto_offset_reset (not Kafka's)",
    "truncation-total": "new leaders that lacked what had been read (not Kafka's)",
}
"""Names and meanings. Totals count from when the consumer was made."""


class Consumed:
    """Counts of what was read. Iteration counts records by whole batches, never one by one."""

    __slots__ = ("bytes", "fetches", "latency_max_s", "latency_sum_s", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.fetches = 0
        self.latency_sum_s = 0.0
        self.latency_max_s = 0.0

    def on_fetch_response(self, latency_s: float) -> None:
        """Note that a fetch got its response after `latency_s`."""
        self.fetches += 1
        self.latency_sum_s += latency_s
        self.latency_max_s = max(self.latency_max_s, latency_s)

    def metrics(self, subscription: SubscriptionState) -> dict[str, float]:
        """Return the current values of METRICS."""
        positions = subscription.positions.values()
        return {
            "records-consumed-total": float(self.records),
            "bytes-consumed-total": float(self.bytes),
            "fetch-total": float(self.fetches),
            "fetch-latency-avg": 1000 * self.latency_sum_s / max(1, self.fetches),
            "fetch-latency-max": 1000 * self.latency_max_s,
            "records-lag-max": float(max((position.lag for position in positions), default=-1)),
            "assigned-partitions": float(len(positions)),
            "position-reset-total": float(subscription.resets),
            "truncation-total": float(subscription.truncations),
        }
