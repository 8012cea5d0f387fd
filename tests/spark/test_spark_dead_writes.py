"""The driver of a batch write is killed between its decision and the ends of its tasks: all of Spark's processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from waiting import SPARK_LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster
from pyspark_ottla import settle

DRIVER = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark_ottla.options import write_options
from pyspark_ottla.query_transactions import QueryTransactions
from pyspark_ottla.sink import OttlaBatchWriter, RowWriter
from pyspark_ottla.source import OttlaDataSource

mark, *options = sys.argv[1:]

class Transactions(QueryTransactions):
    def end(self, admin, decided, orphans):
        super().end(admin, decided[:1], orphans)
        if decided:
            Path(f"{mark}.new").write_text(f"{os.getpid()} {self._batch.query}")
            os.rename(f"{mark}.new", mark)
            time.sleep(600)

class Rows(RowWriter):
    def transactions(self, batch):
        return Transactions(self.options, batch)

class Deadly(OttlaDataSource):
    @classmethod
    def name(cls):
        return "deadly"

    def writer(self, schema, overwrite):
        return OttlaBatchWriter(Rows(write_options(self.options), schema))

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
spark.dataSource.register(Deadly)
rows = spark.range(0, 40, 1, 2).selectExpr("cast(id AS string) AS value")
rows.write.format("deadly").mode("append").options(**dict(zip(options[::2], options[1::2]))).save()
"""
"""`deadly` waits for its end between those of its tasks, with a mark."""


def run_driver(cluster: Cluster, mark: Path, topic: str, *options: str) -> subprocess.Popen[bytes]:
    given = ["kafka.bootstrap.servers", cluster.bootstrap, "topic", topic, "delivery", "exactly_once", *options]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", DRIVER, str(mark), *given]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def kill_half_way(cluster: Cluster, mark: Path, topic: str, *options: str) -> str:
    """The id of the write: one of its two transactions is committed, and the other one is decided."""
    with run_driver(cluster, mark, topic, *options) as driver:
        try:
            wait_until(lambda: mark.exists() or driver.poll() is not None, limit_s=SPARK_LIMIT_S)
            assert driver.poll() is None
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    pid, query = mark.read_text().split()
    with contextlib.suppress(ProcessLookupError):  # it has seen by itself that its JVM is gone
        os.kill(int(pid), signal.SIGKILL)  # Spark's workers lead process groups of their own
    return query


@pytest.fixture
def topic(admin: ottla.Admin, request: pytest.FixtureRequest) -> str:
    name: str = request.function.__name__
    admin.topics.create(name)
    return name


def written(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(record.value) for record in cluster.read(topic, value="str"))


def test_a_write_whose_driver_is_dead_is_whole_once_it_is_settled(
    cluster: Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = kill_half_way(cluster, tmp_path / "mark", topic)
    assert len(written(cluster, topic)) < 40
    assert settle.main([query, "-b", cluster.bootstrap]) == 0
    assert capsys.readouterr().out == f"{query}: 1 committed, 0 aborted\n"
    assert written(cluster, topic) == list(range(40))


def test_a_write_that_is_run_again_under_its_id_is_written_once(
    spark: SparkSession, cluster: Cluster, admin: ottla.Admin, topic: str, tmp_path: Path
) -> None:
    assert kill_half_way(cluster, tmp_path / "mark", topic, "txnAppId", topic, "txnVersion", "7") == topic
    again = spark.range(0, 40, 1, 2).selectExpr("cast(id AS string) AS value").write.format("ottla").mode("append")
    again = again.option("kafka.bootstrap.servers", cluster.bootstrap).option("delivery", "exactly_once")
    again.option("topic", topic).option("txnAppId", topic).option("txnVersion", 7).save()
    assert written(cluster, topic) == list(range(40))
    assert admin.transactions.list(prefix=f"spark-{topic}-") == []
