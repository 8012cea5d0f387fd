"""The meaning of the cluster's configs for compaction on one broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla_core.cluster.broker_values import broker_values
from ottla_core.cluster.image import ClusterImage

_NO_LIMIT: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Kafka's log.cleaner.* configs, with its defaults. `map_bytes` is the memory of one worker. A limit of 0 means no
    limit."""

    enabled: bool = True
    threads: int = 1
    backoff_s: float = 15.0
    map_bytes: int = 128 << 20
    most_bytes_per_s: int = 0


def cleaner_settings(image: ClusterImage, broker_id: int) -> CleanerSettings:
    values = broker_values(image, broker_id)
    threads = max(1, values.integer("log.cleaner.threads"))  # the store may have 0 from an older release
    rate = values.decimal("log.cleaner.io.max.bytes.per.second")
    return CleanerSettings(
        enabled=values.boolean("log.cleaner.enable"),
        threads=threads,
        backoff_s=values.integer("log.cleaner.backoff.ms") / 1000,
        map_bytes=values.integer("log.cleaner.dedupe.buffer.size") // threads,
        most_bytes_per_s=int(rate / threads) if rate < _NO_LIMIT else 0,
    )
