"""`python -m tests.faults.restarts.query`: the driver of a query that copies a topic exactly once, until it is killed.

A query that fails is started again in here, as its users would do, unless its checkpoint is rejected: then the driver
ends with REJECTED. With --to-end it copies what is there, and ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.faults.history import HistoryWriter, client_parser
from tests.faults.restarts.content import QUERY_SOURCE, QUERY_TARGET, QUERY_TIMEOUT_S
from tests.faults.restarts.data_sources import ATTEMPTS, SpeculatedDataSource, TrustingDataSource
from tests.faults.spark.driver import ROWS_A_BATCH, session

REJECTED: Final = 3
CHECKPOINT: Final = "checkpoint"
"""In the directory."""

REJECTIONS: Final = ("was already written", "has already been written", "has begun to write")
"""What the connector's errors say of a checkpoint that is not the newest, and of two runs of one query."""

_STARTS: Final = 50


def main(arguments: list[str]) -> int:
    parser = client_parser("restarts.query", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--directory", type=Path, required=True, help="of the checkpoint and Spark's own files")
    parser.add_argument("--rows", type=int, default=ROWS_A_BATCH, help="of a micro-batch, at most")
    parser.add_argument("--to-end", action="store_true")
    parser.add_argument("--contended", action="store_true", help="a copy of the checkpoint is used at the same time")
    parser.add_argument("--trusting", action="store_true", help="with a rule broken")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    os.environ[ATTEMPTS] = str(given.directory / "attempts")
    spark = session(given.directory, executors=False)
    source = TrustingDataSource if given.trusting else SpeculatedDataSource
    spark.dataSource.register(source)
    for _ in range(_STARTS):
        rows = _source(spark, given.bootstrap, given.rows)
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
            # With a contended checkpoint, a rejection may not be recognized: Spark omits the cause if the abort fails.
            kind = "fail" if is_rejected or given.contended else "info"
            history.add(kind, "failure", error=str(error)[:2_000])
            history.flush()
            if is_rejected:
                return REJECTED
        else:
            return 0
    return 1


def _source(spark: SparkSession, bootstrap: str, most_rows: int) -> DataFrame:
    options: dict[str, Any] = {
        "subscribe": QUERY_SOURCE,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": most_rows,
    }
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**options).load().select("key", "value")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
