"""Reports how far streaming queries are behind, after each micro-batch: to the log, and to Prometheus.

    spark.streams.addListener(LagListener(prometheus_port=9464))

It runs in the driver. It counts records: those that are committed and not read, and those behind the last stable
offset, which are open or behind an open one. `ottla group show` says how old the oldest unread record is, if the query
commits its offsets (commitOffsets).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.errors import config_error
from ottla_core.model import TopicPartition
from ottla_core.plural import counted
from pyspark_ottla.machines.offsets import differing, from_json, ids_in, open_in, to_json

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("ottla.spark")

_LABELS: Final = ("query", "topic", "partition")


class LagListener(StreamingQueryListener):
    """The lag of every query that reads from ottla.

    Args:
        prometheus_port: where the driver serves its metrics, by query, topic and partition: `ottla_spark_lag_records`
            and `ottla_spark_open_records`. None: nowhere.
        registry: where these gauges are registered; prometheus_client's own by default.

    Raises:
        ConfigError: prometheus_client is not installed and one of the two was given.
    """

    def __init__(self, prometheus_port: int | None = None, registry: CollectorRegistry | None = None) -> None:
        self.lags: Final[dict[str, Mapping[TopicPartition, int]]] = {}
        """By the name of a query (or its id if it has none), it has for each partition the number of records that were
        not read."""
        self.open: Final[dict[str, Mapping[TopicPartition, int]]] = {}
        """It has the number of records that can't be read yet, likewise. There are none at the isolation level
        read_uncommitted."""
        self._gauges = None if prometheus_port is None and registry is None else _gauges(prometheus_port, registry)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing, because nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag after a micro-batch, and now and then while there is nothing to read."""
        progress = event.progress
        query = progress.name or str(progress.id)
        lags: dict[TopicPartition, int] = {}
        uncommitted: dict[TopicPartition, int] = {}
        for source in progress.sources:
            if of_source := lag_of(source.endOffset, source.latestOffset):
                lags |= of_source
                uncommitted |= dict.fromkeys(of_source, 0) | open_in(json.loads(source.latestOffset))
        if not lags:
            return
        self.lags[query], self.open[query] = lags, uncommitted
        beyond = counted(count, "record") if (count := sum(uncommitted.values())) else ""
        more = f", plus {beyond} beyond the last stable offset" if beyond else ""
        behind = counted(sum(lags.values()), "record")
        logger.info("query %s lags by %s%s: %s", query, behind, more, json.dumps(to_json(lags)))
        for gauge, found in zip(self._gauges or (), (lags, uncommitted), strict=False):
            for (topic, number), records in found.items():
                gauge.labels(query, topic, str(number)).set(records)

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing, because the lag has not changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: a query that has ended keeps its last lag, because it is behind until it is started again."""


def lag_of(end: str | None, latest: str | None) -> dict[TopicPartition, int]:
    """Return for each partition the number of records after `end` up to `latest`, both as a source's progress has them.

    Return none if they are not offsets of partitions, because the source is another one.
    """
    try:
        ended, latest_json = json.loads(end or "null"), json.loads(latest or "null")
        read, ends, recreated = from_json(ended), from_json(latest_json), differing(ids_in(ended), ids_in(latest_json))
        return {p: at if p.topic in recreated else max(0, at - read.get(p, 0)) for p, at in ends.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _gauges(port: int | None, registry: CollectorRegistry | None) -> tuple[Any, Any]:
    """Return two gauges: of committed records that are not read yet, and of records that are not committed."""
    try:
        import prometheus_client
    except ImportError:
        raise config_error("prometheus_client is not installed", hint="run `pip install prometheus-client`") from None
    used = registry or prometheus_client.REGISTRY
    if port is not None:
        prometheus_client.start_http_server(port, registry=used)
    gauge = partial(prometheus_client.Gauge, labelnames=_LABELS, registry=used)
    return (
        gauge("ottla_spark_lag_records", "Committed records that a streaming query has not read yet."),
        gauge(
            "ottla_spark_open_records", "Records beyond the last stable offset, which a streaming query can't read yet."
        ),
    )
