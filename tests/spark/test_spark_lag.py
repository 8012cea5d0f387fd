"""How far a query is behind, told by a listener in the driver."""

from __future__ import annotations

import time
from collections.abc import Callable

import prometheus_client
import pytest
from pyspark.sql import SparkSession
from waiting import SPARK_LIMIT_S

import ottla
from ottla.testing import Cluster
from ottla_core.model import TopicPartition
from pyspark_ottla import LagListener
from pyspark_ottla.lag import lag_of


@pytest.mark.feature(174)
def test_a_listener_tells_the_lag_of_a_query(
    spark: SparkSession, cluster: Cluster, checkpoint: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.spark")
    ottla.Admin(cluster.bootstrap).topics.create("lagging", partitions=1)
    with ottla.Producer(cluster.bootstrap, topic="lagging") as producer:
        assert producer.send_many([str(n) for n in range(100)])
    registry = prometheus_client.CollectorRegistry()
    listener = LagListener(registry=registry)
    spark.streams.addListener(listener)
    writer = ottla.Producer[str, str](cluster.bootstrap, topic="lagging", transactional_id="lagging")
    try:
        writer.init_transactions()
        writer.begin_transaction()
        for n in range(7):
            writer.send(str(n))
        writer.flush()
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
        stream = reader.option("subscribe", "lagging").option("startingOffsets", "earliest")
        sink = stream.option("maxOffsetsPerTrigger", 40).load().writeStream.format("noop").queryName("reader")
        query = sink.option("checkpointLocation", checkpoint("c")).trigger(processingTime="1 hour").start()
        deadline = time.monotonic() + SPARK_LIMIT_S
        partition = TopicPartition("lagging", 0)
        while listener.lags.get("reader") != {partition: 60}:
            assert time.monotonic() < deadline, listener.lags
            time.sleep(0.1)
        query.stop()
    finally:
        spark.streams.removeListener(listener)
        writer.close()
    labels = {"query": "reader", "topic": "lagging", "partition": "0"}
    assert registry.get_sample_value("ottla_spark_lag_records", labels) == 60
    assert registry.get_sample_value("ottla_spark_open_records", labels) == 7
    assert listener.open == {"reader": {partition: 7}}
    assert (
        'query reader lags by 60 records, plus 7 records beyond the last stable offset: {"lagging": {"0": 60}}'
        in caplog.text
    )


def test_the_driver_serves_its_metrics() -> None:
    registry = prometheus_client.CollectorRegistry()
    listener = LagListener(0, registry)
    assert listener.lags == {}
    with pytest.raises(ValueError, match="Duplicated"):
        LagListener(registry=registry)


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ('{"t":{"0":3}}', '{"t":{"0":5,"1":7}}', {TopicPartition("t", 0): 2, TopicPartition("t", 1): 7}),
        ('{"t":{"0":9}}', '{"t":{"0":5}}', {TopicPartition("t", 0): 0}),
        ("7", "9", {}),
        (None, '{"t":{"0":5}}', {}),
        ('{"files":3}', '{"files":9}', {}),
        ("nonsense", "{}", {}),
    ],
)
def test_lag_is_latest_minus_end(end: str | None, latest: str | None, lag: dict[TopicPartition, int]) -> None:
    assert lag_of(end, latest) == lag
