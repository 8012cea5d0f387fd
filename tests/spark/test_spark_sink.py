"""Writing: rows of a query become records, in batches and as a stream, or the query fails in words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery
from waiting import SPARK_LIMIT_S

import ottla
from ottla.testing import Cluster

_numbers = itertools.count()

HEADERS = "array<struct<key:string,value:binary>>"
EVERYTHING = """
    SELECT * FROM VALUES
    ('k', 'both', 2, {a}, array(struct('h', X'31'), struct('h', NULL), struct('ü', X''))),
    ('k', 'key alone decides', NULL, {a}, NULL),
    (NULL, 'value alone', 0, {b}, array()),
    ('t', NULL, 1, {b}, NULL)
    AS t(key, value, partition, topic, headers)
"""


@pytest.fixture
def topic(admin: ottla.Admin, request: pytest.FixtureRequest) -> str:
    name = f"{request.function.__name__}-{next(_numbers)}"
    admin.topics.create(name, partitions=3)
    return name


@pytest.fixture
def save(cluster: Cluster) -> Callable[..., None]:
    def save(rows: DataFrame, mode: str = "append", **options: Any) -> None:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
        rows.write.format("ottla").mode(mode).options(**given).save()

    return save


@pytest.fixture
def run(spark: SparkSession, cluster: Cluster, checkpoint: Callable[..., str]) -> Callable[..., StreamingQuery]:
    """A stream that writes what there is now; `select` says what of the source's columns becomes the rows."""

    def run(source: str, *select: str, **options: Any) -> StreamingQuery:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
        stream = reader.options(subscribe=source, startingOffsets="earliest", includeHeaders=True).load()
        sink = stream.selectExpr(*select).writeStream.format("ottla")
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "checkpointLocation": checkpoint("c"), **options}
        query = sink.options(**given).trigger(availableNow=True).start()
        assert query.awaitTermination(SPARK_LIMIT_S)
        return query

    return run


def everything(spark: SparkSession, a: str, b: str) -> DataFrame:
    rows = spark.sql(EVERYTHING.format(a=f"'{a}'", b=f"'{b}'"))
    return rows.withColumn("headers", rows.headers.cast(HEADERS)).withColumn("timestamp", rows.partition)


def stored(cluster: Cluster, topic: str) -> list[tuple[Any, ...]]:
    records = cluster.read(topic, key="str", value="str")
    return sorted(((r.partition, r.key, r.value, tuple(r.headers)) for r in records), key=str)


def test_every_column_into_two_topics_and_back(
    spark: SparkSession, cluster: Cluster, admin: ottla.Admin, topic: str, save: Callable[..., None]
) -> None:
    """Whatever else the rows have is left out, a timestamp too."""
    other = f"{topic}-2"
    admin.topics.create(other, partitions=3)
    rows = everything(spark, topic, other)
    save(rows)
    headers = (("h", b"1"), ("h", None), ("ü", b""))
    by_key = next(r.partition for r in cluster.read(topic, value="str") if r.value == "key alone decides")
    assert stored(cluster, topic) == sorted(
        [(2, "k", "both", headers), (by_key, "k", "key alone decides", ())], key=str
    )
    assert stored(cluster, other) == [(0, None, "value alone", ()), (1, "t", None, ())]
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
    back = reader.options(subscribe=f"{topic},{other}", includeHeaders=True).load()
    assert {(r.topic, r.key and bytes(r.key), r.value and bytes(r.value)) for r in back.collect()} == {
        (topic, b"k", b"both"),
        (topic, b"k", b"key alone decides"),
        (other, None, b"value alone"),
        (other, b"t", None),
    }
    (first,) = back.where("value = 'both'").select("headers").collect()
    assert first.headers == [Row(key=name, value=None if text is None else bytearray(text)) for name, text in headers]


@pytest.mark.spark_option("delivery")
def test_each_row_is_written_once_by_a_batch_and_a_stream(
    spark: SparkSession, cluster: Cluster, admin: ottla.Admin, topic: str, save: Callable[..., None], run: Any
) -> None:
    target, others = f"{topic}-2", {found.name for found in admin.transactions.list(prefix="spark-")}
    admin.topics.create(target, partitions=3)
    save(spark.range(0, 100, 1, 4).selectExpr("CAST(id AS STRING) AS value"), topic=topic, delivery="exactly_once")
    assert sorted(int(r.value) for r in cluster.read(topic, value="str")) == [*range(100)]
    options = {"topic": target, "delivery": "exactly_once"}
    for more in ([], ["100"], []):
        cluster.produce(topic, more)
        run(topic, "value", **options)
    assert sorted(int(r.value) for r in cluster.read(target, value="str")) == [*range(101)]
    with pytest.raises(Exception, match="is for partition 99"):
        save(spark.sql("SELECT 'v' AS value, 99 AS partition"), **options)
    left = {found.name for found in admin.transactions.list(prefix="spark-") if found.name.count("-") > 5} - others
    assert len(left) <= 1, "only the ids of the stream's driver and of its task stay"


@pytest.mark.spark_option("topic")
def test_the_option_goes_before_the_column(
    spark: SparkSession, cluster: Cluster, topic: str, save: Callable[..., None]
) -> None:
    save(spark.sql("SELECT 'v' AS value, 'not-there' AS topic, CAST(NULL AS STRING) AS more"), topic=topic)
    assert [record.value for record in cluster.read(topic, value="str")] == ["v"]


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        ("1 AS value", {"topic": "t"}, "the column value has type int .*string or binary"),
        ("'k' AS key", {"topic": "t"}, "the column value is missing"),
        ("'v' AS value", {}, "which topic to write to"),
        ("'v' AS value, 3L AS partition", {"topic": "t"}, "the column partition has type bigint"),
        ("'v' AS value", {"topic": "t", "delivery": "just_once"}, "delivery=just_once is not valid"),
        ("'v' AS value", {"topic": "t", "linger.ms": 5}, "option linger.ms is unknown"),
        ("'v' AS value", {"topic": "t", "mode": "overwrite"}, "mode overwrite is not supported"),
    ],
)
def test_what_can_not_be_is_said_before_anything_runs(
    spark: SparkSession, save: Callable[..., None], query: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(AnalysisException, match=words):
        save(spark.sql(f"SELECT {query}"), **options)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("IF(id = 2, NULL, '{topic}') AS topic", "with the key b'2', has no topic .*INVALID_TOPIC_EXCEPTION"),
        ("IF(id = 2, -1, 0) AS partition", "with the key b'2', is for partition -1 of .*0 to 2"),
        ("99 AS partition", "is for partition 99 of .*0 to 2; if the partition is null, the key decides"),
        ("'not-there' AS topic", "the topic 'not-there' does not exist"),
    ],
)
def test_a_row_that_can_not_be_lets_the_query_fail_at_once(
    spark: SparkSession, topic: str, save: Callable[..., None], column: str, words: str
) -> None:
    key = "CAST(CAST(id AS STRING) AS BINARY) AS key"
    rows = spark.range(0, 4, 1, 1).selectExpr("'v' AS value", key, column.format(topic=topic))
    with pytest.raises(Exception, match=words):
        save(rows, **({} if "topic" in column else {"topic": topic}))


def test_a_stream_copies_whatever_comes(cluster: Cluster, admin: ottla.Admin, topic: str, run: Any) -> None:
    target = f"{topic}-2"
    admin.topics.create(target, partitions=3)
    columns = ("key", "value", "headers", "partition", f"'{target}' AS topic")
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        producer.send("both", key="k", headers=[("h", b"1"), ("h", None)], partition=2)
        producer.send(None, key="k", partition=0)
        producer.send("value alone", partition=0)
    run(topic, *columns)
    assert len(stored(cluster, target)) == 3
    assert stored(cluster, target) == stored(cluster, topic)
    cluster.produce(topic, ["later"])
    run(topic, *columns)
    assert len(stored(cluster, target)) == 4
    assert stored(cluster, target) == stored(cluster, topic)


def test_a_stream_that_can_not_be_fails_in_words(cluster: Cluster, topic: str, run: Any) -> None:
    cluster.produce(topic, ["a"])
    with pytest.raises(StreamingQueryException, match="the column value is missing"):
        run(topic, "key", topic=topic)
    with pytest.raises(StreamingQueryException, match="row 0 of the task has no topic"):
        run(topic, "value", "CAST(NULL AS STRING) AS topic")


def test_counts_in_complete_mode_are_appended(
    cluster: Cluster, admin: ottla.Admin, topic: str, spark: SparkSession, checkpoint: Any
) -> None:
    """All of them with each micro-batch, as by Spark's own sink."""
    target = f"{topic}-2"
    admin.topics.create(target)
    for values in (["a", "b", "a"], ["b"]):
        cluster.produce(topic, values)
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
        stream = reader.options(subscribe=topic, startingOffsets="earliest").load()
        counts = stream.groupBy(stream.value.cast("string").alias("key")).count()
        sink = (
            counts.selectExpr("key", "CAST(count AS STRING) AS value")
            .writeStream.format("ottla")
            .outputMode("complete")
        )
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "checkpointLocation": checkpoint("c"), "topic": target}
        assert sink.options(**given).trigger(availableNow=True).start().awaitTermination(SPARK_LIMIT_S)
    found = [(record.key, record.value) for record in cluster.read(target, key="str", value="str")]
    assert sorted(found) == [("a", "2"), ("a", "2"), ("b", "1"), ("b", "2")]
