"""What is counted by topic: as long as the topic has a replica here, and of a bounded number of topics."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla_broker import metrics as metrics_module
from ottla_broker.metrics import add_topic_tables
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.topic_metrics import REMAINING, TopicTraffic
from ottla_broker.storage.log_config import LogConfig
from ottla_core.telemetry import Metrics


def test_a_topics_replicas_count_together_and_its_figures_go_with_the_last_of_them() -> None:
    traffic = TopicTraffic()
    first, second = traffic.of("orders"), traffic.of("orders")
    first.bytes_in += 10
    assert second.bytes_in == 10
    del first
    gc.collect()
    assert traffic.of("orders").bytes_in == 10
    del second
    gc.collect()
    assert traffic.of("orders").bytes_in == 0, "one of that name that comes later begins anew"


def test_topics_beyond_the_limit_share_one_line() -> None:
    traffic = TopicTraffic(max_topics=2)
    held = [traffic.of(f"t{n}") for n in range(5)]
    assert [each.topic for each in held] == ["t0", "t1", REMAINING, REMAINING, REMAINING]
    assert held[2] is held[4]
    assert traffic.of("t1") is held[1]


def test_a_scrape_shows_the_topics_that_are_there_and_adds_up_their_logs() -> None:
    there: list[Any] = []
    traffic = TopicTraffic()
    metrics = Metrics()
    add_topic_tables(metrics, cast(ReplicaTable, SimpleNamespace(all=lambda: there)))
    for topic, size_bytes in (("orders", 7), ("orders", 5), ("refunds", 1)):
        there.append(SimpleNamespace(traffic=traffic.of(topic), log=SimpleNamespace(size_bytes=size_bytes)))
    there[0].traffic.records_in += 3
    assert metrics.tables["ottla_topic_log_bytes"].read() == {("orders",): 12, ("refunds",): 1}
    assert metrics.tables["ottla_topic_records_in_total"].read() == {("orders",): 3, ("refunds",): 0}
    del there[:2]
    assert metrics.tables["ottla_topic_records_in_total"].read() == {("refunds",): 0}


@pytest.mark.parametrize("limit", [1_000, 2])
def test_the_largest_partitions_have_their_sizes_and_how_full_they_are(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "MAX_PARTITIONS", limit)
    metrics = Metrics()
    there = [
        SimpleNamespace(
            topic=topic,
            id=SimpleNamespace(partition=partition),
            log=SimpleNamespace(size_bytes=size_bytes, config=LogConfig(retention_bytes=most_bytes)),
        )
        for topic, partition, size_bytes, most_bytes in (("a", 0, 50, 200), ("a", 1, 300, 200), ("b", 0, 70, -1))
    ]
    add_topic_tables(metrics, cast(ReplicaTable, SimpleNamespace(all=lambda: there)))
    sizes = {("a", "1"): 300, ("b", "0"): 70} | ({} if limit == 2 else {("a", "0"): 50})
    assert metrics.tables["ottla_partition_log_bytes"].read() == sizes
    full = {("a", "1"): 150.0} | ({} if limit == 2 else {("a", "0"): 25.0})
    assert metrics.tables["ottla_partition_retention_size_percent"].read() == full
