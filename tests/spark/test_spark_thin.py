"""The thinnest path: a topic as a table, and as a stream that knows where it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import ottla
from ottla.testing import Cluster

ROWS = 1_000


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name
    ottla.Admin(cluster.bootstrap).topics.create(name, partitions=3)
    with ottla.Producer(cluster.bootstrap, topic=name) as producer:
        assert producer.send_many([(f"k{n}", f"v{n}") for n in range(ROWS)])
    return name


def test_a_topic_is_a_table(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
    table = reader.option("subscribe", topic).load()
    assert table.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = table.selectExpr("cast(key as string)", "cast(value as string)", "topic").collect()
    assert sorted(map(tuple, rows)) == sorted((f"k{n}", f"v{n}", topic) for n in range(ROWS))


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, cluster: Cluster, topic: str, checkpoint: Callable[[str], str]
) -> None:
    def run() -> int:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
        stream = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("commitOffsets", topic)
        writer = stream.load().writeStream.format("noop").option("checkpointLocation", checkpoint("c"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        return sum(progress.numInputRows for progress in query.recentProgress)

    assert run() == ROWS
    assert run() == 0
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        assert producer.send_many(["one", "two"])
    assert run() == 2
    lag = ottla.Admin(cluster.bootstrap).groups.lag(topic)
    assert sum(p.committed or 0 for p in lag.partitions) == ROWS + 2
    assert sum(p.records or 0 for p in lag.partitions) == 0
