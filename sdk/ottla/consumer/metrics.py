"""The metrics of a consumer, with Kafka's names and units."""

from __future__ import annotations

from typing import Final

from ottla.machines.subscription import SubscriptionState

METRICS: Final = {
    "records-consumed-total": "records returned by the consumer",
    "bytes-consumed-total": "bytes of the batches that contained these records, as received",
    "fetch-total": "fetches that received a response",
    "fetch-latency-avg": "average time from a fetch to its response, in ms, including the wait for records",
    "fetch-latency-max": "longest time from a fetch to its response, in ms",
    "records-lag-max": "largest lag of any partition as of its last fetch, in records; -1 before the first fetch",
    "assigned-partitions": "partitions that the consumer reads",
    "position-reset-total": "positions outside the log that were reset by auto_offset_reset (not a Kafka metric)",
    "truncation-total": "new leaders that lacked records already read by the consumer (not a Kafka metric)",
}
"""Names and meanings. Totals are since the consumer was created."""


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
