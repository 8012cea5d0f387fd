"""How far streaming queries are behind, after each micro-batch: to the log, and to Prometheus.

    spark.streams.addListener(LagListener(prometheus_port=9464))

It runs in the driver. Records are counted here; how old the oldest unread one is, `ottla group show` says, for a query
that commits its offsets (commitOffsets).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.errors import config_error
from ottla_core.model import TopicPartition
from pyspark_ottla.machines.offsets import differing, from_json, ids_in, to_json

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("ottla.spark")

_LABELS: Final = ("query", "topic", "partition")


class LagListener(StreamingQueryListener):
    """The lag of every query that reads from ottla.

    Args:
        prometheus_port: where the driver serves its metrics: `ottla_spark_lag_records`, by query, topic and partition.
            None: nowhere.
        registry: where that gauge is registered; prometheus_client's own by default.

    Raises:
        ConfigError: prometheus_client is not installed and one of the two was given.
    """

    def __init__(self, prometheus_port: int | None = None, registry: CollectorRegistry | None = None) -> None:
        self.lags: Final[dict[str, Mapping[TopicPartition, int]]] = {}
        """By the name of a query (its id where it has none): for each partition, the records that it has not read."""
        self._gauge = None if prometheus_port is None and registry is None else _gauge(prometheus_port, registry)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """After a micro-batch, and now and then while there is nothing to read."""
        progress = event.progress
        query = progress.name or str(progress.id)
        lags: dict[TopicPartition, int] = {}
        for source in progress.sources:
            lags |= lag_of(source.endOffset, source.latestOffset)
        if not lags:
            return
        self.lags[query] = lags
        logger.info("query %s is %d records behind: %s", query, sum(lags.values()), json.dumps(to_json(lags)))
        if self._gauge is not None:
            for (topic, number), records in lags.items():
                self._gauge.labels(query, topic, str(number)).set(records)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new: the lag is what it was."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query that has ended keeps its last lag: it is behind until it is started again."""


def lag_of(end: str | None, latest: str | None) -> dict[TopicPartition, int]:
    """For each partition, the records after `end` up to `latest`, both as a source's progress has them.

    None where they are not offsets of partitions: the source is another one.
    """
    try:
        ended, latest_json = json.loads(end or "null"), json.loads(latest or "null")
        read, ends, recreated = from_json(ended), from_json(latest_json), differing(ids_in(ended), ids_in(latest_json))
        return {p: at if p.topic in recreated else max(0, at - read.get(p, 0)) for p, at in ends.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _gauge(port: int | None, registry: CollectorRegistry | None) -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise config_error("prometheus_client is not installed", hint="pip install prometheus-client") from None
    used = registry or prometheus_client.REGISTRY
    if port is not None:
        prometheus_client.start_http_server(port, registry=used)
    return prometheus_client.Gauge(
        "ottla_spark_lag_records", "Records that a streaming query has not read yet.", _LABELS, registry=used
    )
