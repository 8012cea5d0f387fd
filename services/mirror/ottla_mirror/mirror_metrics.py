"""A mirror's metrics: how far each flow's copies are behind, and what was copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla_core.clock import Clock
from ottla_core.telemetry import Metrics, Table
from ottla_mirror.flow import Flow
from ottla_mirror.machines.progress import Lag

_OF_PARTITION = ("flow", "topic", "partition")


def observe(flows: Sequence[Flow], clock: Clock, metrics: Metrics) -> None:
    """Add the series of all flows to `metrics`. They are read at each scrape."""

    def lags(unit: Callable[[Lag], float | None]) -> dict[tuple[str, ...], float]:
        now_ms = clock.wall_ms()
        found = {
            (flow.settings.name, source.topic, str(source.partition)): unit(partition.lag(read.get(source), now_ms))
            for flow in flows
            for read in (flow.positions(),)
            for source, partition in flow.partitions.items()
        }
        return {partition: lag for partition, lag in found.items() if lag is not None}

    def copied(field: str) -> dict[tuple[str, ...], float]:
        return {
            (flow.settings.name, source.topic, str(source.partition)): float(getattr(partition, field))
            for flow in flows
            for source, partition in flow.partitions.items()
        }

    def troubles() -> dict[tuple[str, ...], float]:
        return {
            (flow.settings.name,): float(bool(flow.trouble))
            + sum(1 for partition in flow.partitions.values() if partition.trouble)
            + len(flow.topics.problems)
            for flow in flows
        }

    metrics.table(
        "ottla_mirror_lag_records",
        Table("Source offsets that are not in the copy yet.", _OF_PARTITION, lambda: lags(lambda lag: lag.records)),
    )
    metrics.table(
        "ottla_mirror_lag_seconds",
        Table(
            "Age of the newest copied record while records are left to copy, else 0.",
            _OF_PARTITION,
            lambda: lags(lambda lag: None if lag.ms is None else lag.ms / 1000),
        ),
    )
    metrics.table(
        "ottla_mirror_records_total",
        Table("Records copied.", _OF_PARTITION, lambda: copied("records"), counts=True),
    )
    metrics.table(
        "ottla_mirror_bytes_total",
        Table("Bytes copied.", _OF_PARTITION, lambda: copied("bytes"), counts=True),
    )
    metrics.table(
        "ottla_mirror_troubles",
        Table(
            "Flows, partitions and topics that are not copied at the moment, or not as they should be.",
            ("flow",),
            troubles,
        ),
    )
