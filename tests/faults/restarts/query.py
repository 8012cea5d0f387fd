"""`python -m tests.faults.restarts.query`: the driver of a query that copies a topic exactly once, until it is killed.

A query that fails is started again in here, as its users would do, unless its checkpoint is rejected: then the driver
ends with REJECTED. With --to-end it copies what is there, and ends.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.faults.history import HistoryWriter, client_parser
from tests.faults.restarts.content import QUERY_SOURCE, QUERY_TARGET, QUERY_TIMEOUT_S
from tests.faults.restarts.trusting import TrustingDataSource
from tests.faults.spark.driver import ROWS_A_BATCH, session

from pyspark_ottla.source import OttlaDataSource

REJECTED: Final = 3
CHECKPOINT: Final = "checkpoint"
"""In the directory."""

REJECTIONS: Final = ("was written already", "is written already", "has begun to write")
"""What the connector's errors say of a checkpoint that is not the newest, and of two runs of one query."""

_SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "100ms",
}
_STARTS: Final = 50
_LINGERS_ONE_IN: Final = 3
_LINGER_S: Final = 1.5


def main(arguments: list[str]) -> int:
    parser = client_parser("restarts.query", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--directory", type=Path, required=True, help="of the checkpoint and Spark's own files")
    parser.add_argument("--speculative", action="store_true", help="two executors, whose slow tasks are tried twice")
    parser.add_argument("--to-end", action="store_true")
    parser.add_argument("--trusting", action="store_true", help="with a rule broken")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    spark = session(given.directory, executors=given.speculative, settings=_SPECULATION if given.speculative else {})
    source = TrustingDataSource if given.trusting else OttlaDataSource
    spark.dataSource.register(source)
    for _ in range(_STARTS):
        rows = _source(spark, given.bootstrap)
        if given.speculative:
            rows = rows.mapInArrow(lingering(given.directory / "attempts"), rows.schema)
        sink = {"topic": QUERY_TARGET, "checkpointLocation": str(given.directory / CHECKPOINT)}
        sink |= {"delivery": "exactly_once", "kafka.bootstrap.servers": given.bootstrap}
        timeout_ms = str(int(1000 * QUERY_TIMEOUT_S))
        sink |= {"kafka.transaction.timeout.ms": timeout_ms, "kafka.delivery.timeout.ms": timeout_ms}
        writer = rows.writeStream.format(source.name()).options(**sink)
        query = (writer.trigger(availableNow=True) if given.to_end else writer).start()
        noted = -1
        try:
            while not query.awaitTermination(1):
                if (progress := query.lastProgress) is not None and progress.batchId > noted:
                    noted = progress.batchId
                    history.add("ok", "batch", number=noted)
                    history.flush()
        except StreamingQueryException as error:
            is_rejected = any(words in str(error) for words in REJECTIONS)
            history.add("fail" if is_rejected else "info", "failure", error=str(error)[:2_000])
            history.flush()
            if is_rejected:
                return REJECTED
        else:
            return 0
    return 1


def _source(spark: SparkSession, bootstrap: str) -> DataFrame:
    options: dict[str, Any] = {
        "subscribe": QUERY_SOURCE,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": ROWS_A_BATCH,
    }
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**options).load().select("key", "value")


def lingering(attempts: Path) -> Any:
    """Return what lets some first attempts take long, so that Spark begins second ones, and notes each of these."""

    def linger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber():
            with attempts.open("a") as lines:
                lines.write(f"{context.taskAttemptId()}\n")
        elif random.randrange(_LINGERS_ONE_IN) == 0:
            time.sleep(_LINGER_S)
        yield from batches

    return linger


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
