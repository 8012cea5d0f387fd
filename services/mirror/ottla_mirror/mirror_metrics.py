"""What a mirror counts: how far each flow's copies are behind, and what was copied."""

from __future__ import annotations

from collections.abc import Sequence

from ottla_core.telemetry import Metrics, Table
from ottla_mirror.flow import Flow

_OF_PARTITION = ("flow", "topic", "partition")


def observe(flows: Sequence[Flow], metrics: Metrics) -> None:
    """Add the series of all flows to `metrics`; they are read at each scrape."""

    def lags() -> dict[tuple[str, ...], float]:
        return {
            (flow.settings.name, source.topic, str(source.partition)): float(read.lag)
            for flow in flows
            for source, read in flow.positions().items()
            if read.lag >= 0
        }

    def copied(field: str) -> dict[tuple[str, ...], float]:
        return {
            (flow.settings.name, source.topic, str(source.partition)): float(getattr(partition, field))
            for flow in flows
            for source, partition in flow.partitions.items()
        }

    def troubles() -> dict[tuple[str, ...], float]:
        return {
            (flow.settings.name,): float(bool(flow.trouble))
            + sum(1 for partition in flow.partitions.values() if partition.error)
            + len(flow.topics.problems)
            for flow in flows
        }

    metrics.table(
        "ottla_mirror_lag_records", Table("Offsets of the source that were not read yet.", _OF_PARTITION, lags)
    )
    metrics.table(
        "ottla_mirror_records_total",
        Table("Records that were copied.", _OF_PARTITION, lambda: copied("records"), counts=True),
    )
    metrics.table(
        "ottla_mirror_bytes_total",
        Table("Bytes that were copied.", _OF_PARTITION, lambda: copied("bytes"), counts=True),
    )
    metrics.table(
        "ottla_mirror_troubles", Table("What is not copied at the moment, or not as it should be.", ("flow",), troubles)
    )
