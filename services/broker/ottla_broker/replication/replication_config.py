"""The meaning of the cluster's configs for replication on one broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla_core.cluster.broker_values import broker_values
from ottla_core.cluster.image import ClusterImage
from ottla_core.model import MAX_BATCH_BYTES

FETCH_MEMORY_BYTES: Final = 128 * 1024 * 1024
"""The memory for the responses to all followers together, and again for those of all leaders. Consumers have memory of
their own. A first batch is sent whole even if it exceeds this."""


def most_bytes(requested_bytes: int, brokers: int) -> int:
    """Return how many bytes of records one response may hold while `brokers` brokers have a response each.

    It is no more than a single batch may have, which can always be sent."""
    return min(requested_bytes, MAX_BATCH_BYTES, FETCH_MEMORY_BYTES // max(1, brokers))


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """Kafka's replica.* configs, with its defaults."""

    lag_max_s: float = 30.0
    fetch_max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    fetch_min_bytes: int = 1
    wait_max_ms: int = 500
    backoff_s: float = 1.0


def replication_settings(image: ClusterImage, broker_id: int) -> ReplicationSettings:
    values = broker_values(image, broker_id)
    return ReplicationSettings(
        lag_max_s=values.integer("replica.lag.time.max.ms") / 1000,
        fetch_max_bytes=values.integer("replica.fetch.max.bytes"),
        response_max_bytes=values.integer("replica.fetch.response.max.bytes"),
        fetch_min_bytes=values.integer("replica.fetch.min.bytes"),
        wait_max_ms=values.integer("replica.fetch.wait.max.ms"),
        backoff_s=values.integer("replica.fetch.backoff.ms") / 1000,
    )
