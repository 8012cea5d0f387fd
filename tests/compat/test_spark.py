"""Spark's own Kafka source and sink against a cluster: what pipelines do with them, in batches and as streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.client import Rec
from peers.security import java
from peers.spark.session import spark as started_spark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.streaming.query import StreamingQuery
from tests.compat.cells import CODECS, SDK, SPARK
from tests.compat.crossing import BASE_MS
from tests.compat.topics import Topics
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster

SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with started_spark() as session:
        yield session


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap) as admin:
        yield admin


class Spark:
    """A user of one cluster, who reads `topic` unless other options say what."""

    def __init__(self, session: SparkSession, bootstrap: str, checkpoint: Path) -> None:
        self.session = session
        self._servers = {"kafka.bootstrap.servers": bootstrap, **java("kafka.")}
        self._checkpoint = {"checkpointLocation": str(checkpoint)}

    def read(self, topic: str | None = None, **options: Any) -> DataFrame:
        return self.session.read.format("kafka").options(**self._source(topic, options)).load()

    def values(self, topic: str | None = None, **options: Any) -> list[str]:
        """In the order of partitions and offsets."""
        rows = self.read(topic, **options).orderBy("partition", "offset").collect()
        return [bytes(row.value).decode() for row in rows]

    def write(self, sql: str, **options: Any) -> None:
        """What the statement selects."""
        self.session.sql(sql).write.format("kafka").options(**self._servers, **options).save()

    def copy(self, target: str, topic: str | None = None, **options: Any) -> list[int]:
        """All there is, by a stream that ends then and goes on next time; the rows of each of its batches."""
        query = self.start(target, topic, trigger={"availableNow": True}, **options)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    def start(self, target: str, topic: str | None = None, *, trigger: Any = None, **options: Any) -> StreamingQuery:
        """A stream that copies whatever comes."""
        source = self._source(topic, {"startingOffsets": "earliest", "includeHeaders": True, **options})
        stream = self.session.readStream.format("kafka").options(**source).load()
        rows = stream.selectExpr("key", "value", "headers", f"'{target}' AS topic")
        sink = rows.writeStream.format("kafka").options(**self._servers, **self._checkpoint)
        return sink.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def _source(self, topic: str | None, options: dict[str, Any]) -> dict[str, Any]:
        return {**self._servers, **({"subscribe": topic} if topic else {}), **options}


@pytest.fixture
def user(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Spark:
    return Spark(spark, cluster.bootstrap, tmp_path / "checkpoint")


def write(cluster: Cluster, topic: str, values: range, partition: int = 0, codec: str = "none") -> None:
    """By the SDK; the numbers are also the times, in milliseconds."""
    records = [Rec(b"k-%d" % n, b"%d" % n, (), BASE_MS + n) for n in values]
    SDK.open().produce(cluster.bootstrap, topic, records, codec=codec, partition=partition)


def wait(condition: Callable[[], object]) -> None:
    """As long as a JVM may need that has just been started."""
    wait_until(condition)


def words(*numbers: range) -> list[str]:
    return [str(n) for each in numbers for n in each]


@SPARK.cell
def test_columns(user: Spark, cluster: Cluster, topic: str) -> None:
    headers = (("a", b"1"), ("a", None), ("ümlaut", b"\xff\0"))
    records = [Rec(b"k", b"\0\xff", headers, BASE_MS), Rec(None, b"", (), 1), Rec(b"", None, (), BASE_MS + 999)]
    SDK.open().produce(cluster.bootstrap, topic, records)
    got = user.read(topic, includeHeaders=True)
    assert got.schema.simpleString() == SCHEMA
    rows = got.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
    assert [(row.key, row.value, row.ms) for row in rows] == [(r.key, r.value, r.timestamp_ms) for r in records]
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (topic, 0, n, 0) for n in range(3)
    ]
    assert [row.headers for row in rows] == [[Row(key=k, value=v) for k, v in headers], None, None]


@SPARK.cell
def test_every_codec(user: Spark, cluster: Cluster, topic: str) -> None:
    for n, codec in enumerate(CODECS):
        write(cluster, topic, range(100 * n, 100 * (n + 1)), codec=codec)
    committed = {"kafka.isolation.level": "read_committed"}
    assert user.values(topic, **committed) == words(range(100 * len(CODECS)))


@SPARK.cell
def test_ranges_of_offsets_and_times(user: Spark, cluster: Cluster, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    write(cluster, topic, range(100), partition=0)
    write(cluster, topic, range(100, 150), partition=1)

    def of(first: int, second: int) -> str:
        return json.dumps({topic: {0: first, 1: second}})

    assert user.values(topic) == words(range(150))
    assert user.values(topic, startingOffsets=of(90, -2), endingOffsets=of(-1, 5)) == words(range(90, 105))
    assert user.values(topic, startingTimestamp=BASE_MS + 98, endingTimestamp=BASE_MS + 120) == words(range(98, 120))
    by_time = {"startingOffsetsByTimestamp": of(BASE_MS + 95, BASE_MS), "endingOffsets": of(97, 1)}
    assert user.values(topic, **by_time) == words(range(95, 97), range(100, 101))
    after = {"startingTimestamp": BASE_MS + 140, "startingOffsetsByTimestampStrategy": "latest"}
    assert user.values(topic, **after) == words(range(140, 150))
    assert user.values(assign=json.dumps({topic: [1]})) == words(range(100, 150))


@SPARK.cell
def test_more_tasks_than_partitions(user: Spark, cluster: Cluster, topic: str) -> None:
    write(cluster, topic, range(100))
    whole = {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}', "endingOffsets": f'{{"{topic}": {{"0": 100}}}}'}
    for options, tasks in (({}, 1), ({"minPartitions": 4}, 4), ({"maxRecordsPerPartition": 30, **whole}, 4)):
        got = user.read(topic, **options).withColumn("task", spark_partition_id()).collect()
        assert len({row.task for row in got}) == tasks
        assert sorted(row.offset for row in got) == list(range(100))


@SPARK.cell
def test_a_stream_goes_on_from_its_checkpoint(user: Spark, cluster: Cluster, topics: Topics, topic: str) -> None:
    target = topics.create()
    write(cluster, topic, range(100))
    assert user.copy(target, topic, maxOffsetsPerTrigger=40) == [40, 40, 20]
    write(cluster, topic, range(100, 130))
    assert sum(user.copy(target, topic)) == 30
    assert user.values(target) == words(range(130))


@SPARK.cell
def test_a_pattern_finds_topics_and_partitions_that_come(
    user: Spark, cluster: Cluster, topics: Topics, admin: ottla.Admin
) -> None:
    first, target = topics.create(), topics.create()
    pattern = {"subscribePattern": f"{first}(-more)?$"}
    write(cluster, first, range(10))
    query = user.start(target, **pattern)
    try:
        wait(lambda: topics.end(target) == 10)
        admin.topics.create(f"{first}-more")
        admin.topics.add_partitions(first, 2)
        write(cluster, f"{first}-more", range(10, 20))
        write(cluster, first, range(20, 30), partition=1)
        wait(lambda: topics.end(target) == 30)
    finally:
        query.stop()
    assert sorted(map(int, user.values(target))) == list(range(30))


@SPARK.cell
def test_a_stream_of_what_comes_later(user: Spark, cluster: Cluster, topics: Topics, topic: str) -> None:
    """Without starting offsets, at the latest; and nothing is left out while batches come and go."""
    target = topics.create()
    write(cluster, topic, range(5))
    query = user.start(target, topic, startingOffsets="latest")
    try:
        wait(lambda: query.lastProgress is not None)
        for n in range(5, 25, 5):
            write(cluster, topic, range(n, n + 5))
            wait(lambda n=n: topics.end(target) == n)
    finally:
        query.stop()
    assert user.values(target) == words(range(5, 25))


@SPARK.cell
def test_the_sinks_columns(user: Spark, cluster: Cluster, topics: Topics) -> None:
    topic, other = topics.create(partitions=3), topics.create()
    header = "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY)))"
    rows = f"('a', 'one', 2, {header}, '{topic}'), (NULL, 'two', 0, NULL, '{topic}'), ('b', NULL, 1, NULL, '{other}')"
    user.write(f"SELECT * FROM VALUES {rows} AS t(key, value, partition, headers, topic) WHERE partition <> 1")
    user.write(f"SELECT key, value, topic FROM VALUES {rows} AS t(key, value, partition, headers, topic)", topic=other)
    stored = [(r.key, r.value, r.partition, tuple(r.headers)) for r in cluster.read(topic, key="str", value="str")]
    assert sorted(stored, key=str) == sorted([("a", "one", 2, (("h", b"1"),)), (None, "two", 0, ())], key=str)
    assert {(r.key, r.value) for r in cluster.read(other, key="str", value="str")} == {
        ("a", "one"),
        (None, "two"),
        ("b", None),
    }


@SPARK.cell
@pytest.mark.parametrize("codec", CODECS)
def test_the_sinks_batches(user: Spark, cluster: Cluster, topics: Topics, topic: str, codec: str) -> None:
    """Many tasks with idempotent producers, whose settings are given through."""
    settings = {"kafka.compression.type": codec, "kafka.linger.ms": 5}
    user.write("SELECT CAST(id AS STRING) AS value FROM range(0, 5000, 1, 4)", topic=topic, **settings)
    assert sorted(int(r.value) for r in cluster.read(topic, value="str")) == list(range(5000))
    assert topics.codecs(cluster, topic, range(5000)) == {codec}


@SPARK.cell
def test_deleted_records_are_data_loss(
    user: Spark, cluster: Cluster, topics: Topics, admin: ottla.Admin, topic: str
) -> None:
    target = topics.create()
    write(cluster, topic, range(10))
    user.copy(target, topic)
    write(cluster, topic, range(10, 30))
    assert admin.topics.delete_records(topic, {0: 20}) == {0: 20}
    assert user.values(topic) == words(range(20, 30))
    with pytest.raises(StreamingQueryException, match="Some data may have been lost"):
        user.copy(target, topic)
    user.copy(target, topic, failOnDataLoss=False)
    assert user.values(target) == words(range(10), range(20, 30))


@SPARK.cell
def test_the_leader_dies_while_a_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is left out, on either side."""
    with Cluster(brokers=3) as cluster, Topics(cluster.bootstrap) as topics:
        topic, target = topics.create(replicas=3), topics.create(replicas=3)
        # Java's admin client waits for a leader that is gone until its call times out, by default after a minute.
        soon = {"kafka.request.timeout.ms": 3000, "kafka.default.api.timeout.ms": 5000}
        query = Spark(spark, cluster.bootstrap, tmp_path).start(target, topic, maxOffsetsPerTrigger=100, **soon)
        try:
            write(cluster, topic, range(500))
            wait(lambda: topics.end(target) > 0)
            cluster.brokers[topics.leader(topic)].kill()
            write(cluster, topic, range(500, 1000))
            wait(lambda: topics.end(target) >= 1000)
        finally:
            query.stop()
        assert {int(r.value) for r in cluster.read(target, value="str")} == set(range(1000))
