"""The process that is killed: a query that copies one topic to another, from where its checkpoint says.

`python -m tests.faults.spark.driver --bootstrap … --source … --target … --directory …` ends with 0 when all rows that
were there are copied. A query that fails is started again in here, as its users would do; Spark tries a task up to
four times. What kills Spark itself ends this process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

import pyspark
from peers.jvm import SHORT_LIVED
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.faults.spark.mutants import MUTANT, MutantDataSource
from tests.faults.spark.steps import SteppingDataSource

ROWS_A_BATCH: Final = 600
_ROWS_AN_ARROW_BATCH: Final = 50
_SOON_READY: Final = " ".join(SHORT_LIVED)
"""A JVM that lives for seconds is not to compile for hours."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "source", "target", "directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--executors", action="store_true", help="two, each a process of its own")
    parser.add_argument("--options", type=json.loads, default={}, help="of the sink, as JSON")
    parser.add_argument("--queries", type=int, default=20, help="how often the query is started at most")
    given = parser.parse_args(arguments)
    spark = session(Path(given.directory), executors=given.executors)
    spark.dataSource.register(MutantDataSource if MUTANT in os.environ else SteppingDataSource)
    for _ in range(given.queries):
        try:
            _started(spark, given).awaitTermination()
        except StreamingQueryException as error:
            print(f"the query failed and is started again: {error}"[:2_000], flush=True)
        else:
            return 0
    return 1


def session(directory: Path, *, executors: bool) -> SparkSession:
    """Spark in this process, and two executors of their own where they are wanted."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": _SOON_READY,
        "spark.executor.extraJavaOptions": _SOON_READY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": _ROWS_AN_ARROW_BATCH,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if executors:  # they work in their Spark's home, which is not to be the one that is installed
        home = directory / "home"
        home.mkdir(exist_ok=True)
        for part in Path(pyspark.__path__[0]).iterdir():
            (home / part.name).unlink(missing_ok=True)
            (home / part.name).symlink_to(part)
        os.environ["SPARK_HOME"] = str(home)
    builder = SparkSession.builder.master("local-cluster[2,1,512]" if executors else "local[2,4]").appName("kills")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _started(spark: SparkSession, given: argparse.Namespace) -> StreamingQuery:
    source = {"subscribe": given.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": ROWS_A_BATCH}
    reader = spark.readStream.format("stepping").option("kafka.bootstrap.servers", given.bootstrap)
    rows = reader.options(**source).load().select("key", "value")
    sink = {"topic": given.target, "checkpointLocation": str(Path(given.directory) / "checkpoint")}
    writer = rows.writeStream.format("stepping").option("kafka.bootstrap.servers", given.bootstrap)
    return writer.options(**sink, **given.options).trigger(availableNow=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
