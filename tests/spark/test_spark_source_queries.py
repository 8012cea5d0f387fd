"""Queries in a real Spark session: what only Spark shows of the source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from knocks import Knocks
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_source import offsets
from waiting import SPARK_LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

FIRST_MS = 1_700_000_000_000
COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def table(cluster: Cluster, admin: ottla.Admin) -> str:
    """Three partitions with twenty records each, a second apart: v0 to v59, in turns."""
    admin.topics.create("table", partitions=3)
    with ottla.Producer(cluster.bootstrap, topic="table") as producer:
        for n in range(60):
            producer.send(f"v{n}", key=f"k{n}", partition=n % 3, headers=[("n", str(n))], timestamp=FIRST_MS + n * 1000)
    return "table"


def read(spark: SparkSession, cluster: Cluster, **options: object) -> DataFrame:
    return spark.read.format("ottla").options(**given(cluster, options)).load()


def given(cluster: Cluster, options: dict[str, object]) -> dict[str, Any]:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap, **named}


class Runs:
    """Queries whose values are kept here, by the names of the queries."""

    def __init__(self, spark: SparkSession, cluster: Cluster, folder: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self._folder = folder
        self._running: list[StreamingQuery] = []
        self._rows: dict[str, list[str]] = {}

    def start(self, name: str, *, trigger: dict[str, Any] | None = None, **options: object) -> StreamingQuery:
        """With the checkpoint of that name; rows since this start are in `values(name)`."""
        stream = self._spark.readStream.format("ottla").options(**given(self._cluster, options)).load()
        values = stream.selectExpr("cast(value as string)")
        writer = values.writeStream.foreachBatch(
            lambda frame, _: self._rows[name].extend(r[0] for r in frame.collect())
        )
        self._rows[name] = []
        query = writer.option("checkpointLocation", str(self._folder / name)).trigger(
            **(trigger or {"processingTime": "0 seconds"})
        )
        self._running.append(started := query.start())
        return started

    def finish(self, name: str, *, trigger: dict[str, Any] | None = None, **options: object) -> list[str]:
        """What a query reads that ends by itself."""
        query = self.start(name, trigger=trigger or {"availableNow": True}, **options)
        assert query.awaitTermination(SPARK_LIMIT_S)
        self.batches = [each.numInputRows for each in query.recentProgress if each.numInputRows]
        return self.values(name)

    def wait_until(self, condition: Callable[[], object], *queries: StreamingQuery) -> None:
        """Wait for what these queries do; raises the error of one that has failed meanwhile."""

        def settled() -> bool:
            for query in queries:
                if (error := query.exception()) is not None:
                    raise error
            return bool(condition())

        wait_until(settled, limit_s=SPARK_LIMIT_S)

    def values(self, name: str) -> list[str]:
        return sorted(self._rows[name])

    def stop(self) -> None:
        for query in self._running:
            query.stop()


@pytest.fixture
def runs(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(spark, cluster, tmp_path)
    yield runs
    runs.stop()


def send(cluster: Cluster, topic: str, *values: str) -> None:
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        assert producer.send_many(list(values))


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.feature(174)
def test_a_topic_is_a_table(spark: SparkSession, cluster: Cluster, table: str) -> None:
    whole = read(spark, cluster, subscribe=table, INCLUDEHEADERS=True)
    assert dict(whole.dtypes) == {**COLUMNS, "headers": "array<struct<key:string,value:binary>>"}
    rows = whole.orderBy("timestamp").collect()
    assert [(row.key, row.value, row.headers) for row in rows] == [
        (b"k%d" % n, b"v%d" % n, [(("n"), b"%d" % n)]) for n in range(60)
    ]
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (table, n % 3, n // 3, 0) for n in range(60)
    ]
    seconds = [row.s for row in whole.selectExpr("unix_millis(timestamp) as s").orderBy("s").collect()]
    assert seconds == [FIRST_MS + n * 1000 for n in range(60)]


def test_options_have_their_effect_whatever_their_case(spark: SparkSession, cluster: Cluster, table: str) -> None:
    places = {"STARTINGOFFSETS": offsets(table, 4, 4, 4), "endingoffsets": offsets(table, 12, 12, 12)}
    part = read(spark, cluster, subscribe=table, minpartitions=6, **places)
    assert dict(part.dtypes) == COLUMNS
    rows = part.select("offset").rdd
    assert rows.getNumPartitions() == 6
    assert sorted(row.offset for row in rows.collect()) == sorted([*range(4, 12)] * 3)
    assert read(spark, cluster, subscribePattern="^no-such").collect() == []


@pytest.mark.parametrize("pushdown", ["true", "false", None], ids=["on", "off", "unset"])
def test_filters_spare_reading_where_the_session_allows_it_and_change_nothing(
    spark: SparkSession, cluster: Cluster, table: str, pushdown: str | None
) -> None:
    """How much is read is told by the tasks: one for each five records."""
    try:
        if pushdown is not None:
            spark.conf.set(PUSHDOWN, pushdown)
        counted = read(spark, cluster, subscribe=table, maxRecordsPerPartition=5)
        since = "timestamp >= timestamp'2023-11-14 22:13:50Z'"  # v30
        chosen = counted.where(f"topic like 'tab%' and partition in (0, 2) and offset < 15 and {since}").rdd
        assert chosen.getNumPartitions() == (2 if pushdown == "true" else 12)
        assert sorted(row.value for row in chosen.collect()) == sorted(b"v%d" % n for n in range(30, 45) if n % 3 != 1)
    finally:
        spark.conf.unset(PUSHDOWN)


def test_what_can_not_be_is_an_error_of_spark(spark: SparkSession, cluster: Cluster, table: str) -> None:
    with pytest.raises(AnalysisException, match=r"startingoffset is unknown[\s\S]*startingOffsets"):
        read(spark, cluster, subscribe=table, startingOffset="earliest")
    reader = spark.read.format("ottla").options(**given(cluster, {"subscribe": table}))
    with pytest.raises(AnalysisException, match=r"the columns are fixed[\s\S]*leave schema\(\) out"):
        reader.schema("value string").load().collect()
    with pytest.raises(AnalysisException, match="assign and subscribe are set together"):
        read(spark, cluster, subscribe=table, assign='{"table": [0]}').collect()
    beyond = read(spark, cluster, subscribe=table, startingOffsets=offsets(table, 0, 99, 0))
    with pytest.raises(AnalysisException, match="table-1 ends at 20, and the query is at 99"):
        beyond.collect()


# ---- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature(174)
def test_a_stream_goes_on_where_it_was_and_its_group_knows_the_last_batch(
    cluster: Cluster, admin: ottla.Admin, runs: Runs
) -> None:
    admin.topics.create("resumed", partitions=2)
    asked: dict[str, Any] = {"subscribe": "resumed", "startingOffsets": "earliest", "commitOffsets": "resumed"}
    send(cluster, "resumed", *"abcdefghij")
    assert runs.finish("resumed", maxOffsetsPerTrigger=4, **asked) == [*"abcdefghij"]
    assert runs.batches == [4, 4, 2]
    # Its reader ends after the query.
    wait_until(lambda: sum(admin.groups.committed("resumed", if_missing="ok").values()) == 10)
    assert sum(each.records or 0 for each in admin.groups.lag("resumed").partitions) == 0
    send(cluster, "resumed", "k", "l")
    assert runs.finish("resumed", trigger={"once": True}, maxOffsetsPerTrigger=1, **asked) == ["k", "l"]
    assert runs.batches == [2]


def test_a_query_goes_on_through_new_partitions_new_topics_and_brokers_that_are_away(
    cluster: Cluster, admin: ottla.Admin, runs: Runs
) -> None:
    admin.topics.create("running-a", partitions=1)
    asked: dict[str, Any] = {"subscribePattern": "^running-", "startingOffsets": "earliest"}
    asked["kafka__client__id"] = "running"
    query = runs.start("running", **asked)
    sent: list[str] = []

    def send_and_wait(topic: str) -> None:
        new = [f"{topic}{len(sent) + n}" for n in range(10)]
        sent.extend(new)
        send(cluster, topic, *new)
        runs.wait_until(lambda: len(runs.values("running")) >= len(sent), query)
        assert runs.values("running") == sorted(sent)

    send_and_wait("running-a")
    admin.topics.add_partitions("running-a", 3)
    send_and_wait("running-a")
    admin.topics.create("running-b", partitions=2)
    send_and_wait("running-b")
    broker = cluster.brokers[0]
    broker.kill()
    with Knocks(broker.kafka_address) as knocks:
        knocks.until(5)
    broker.restart()
    send_and_wait("running-b")
    dropped = cluster.faults.drop("Metadata").of("running").times(5)
    runs.wait_until(lambda: dropped.met == 5, query)
    send_and_wait("running-a")
    assert query.isActive
    assert query.lastProgress is not None
    assert json.loads(str(query.lastProgress["sources"][0]["latestOffset"]).replace("'", '"')).keys() == {
        "running-a",
        "running-b",
    }


@pytest.mark.spark_option("failOnDataLoss")
def test_a_topic_deleted_in_mid_query_ends_it_or_does_not(cluster: Cluster, admin: ottla.Admin, runs: Runs) -> None:
    for name in ("gone", "kept"):
        admin.topics.create(name, partitions=1)
        send(cluster, name, f"{name}1")
    asked: dict[str, Any] = {"subscribe": "gone,kept", "startingOffsets": "earliest"}
    strict = runs.start("strict", **asked)
    lenient = runs.start("lenient", **asked, failOnDataLoss=False)
    runs.wait_until(lambda: all(len(runs.values(name)) == 2 for name in ("strict", "lenient")), strict, lenient)
    admin.topics.delete("gone")
    with pytest.raises(StreamingQueryException, match="gone-0: deleted while the query was reading"):
        strict.awaitTermination(SPARK_LIMIT_S)
    send(cluster, "kept", "kept2")
    runs.wait_until(lambda: "kept2" in runs.values("lenient"), lenient)
    assert runs.values("lenient") == ["gone1", "kept1", "kept2"]


def test_a_checkpoint_of_another_query_is_refused_by_name(table: str, admin: ottla.Admin, runs: Runs) -> None:
    runs.finish("taken", subscribe=table)
    admin.topics.create("another", partitions=1)
    with pytest.raises(
        StreamingQueryException, match=r"belongs to another query: it holds table-0[\s\S]*checkpointLocation"
    ):
        runs.finish("taken", subscribe="another")
