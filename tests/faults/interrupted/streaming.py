"""`python -m tests.faults.interrupted.streaming …`: a streaming query that is stopped or fails, and goes on.

`StreamingQuery.stop` and the cancellation of Spark's jobs come in the midst of batches; it is started again from its
checkpoint each time. The last line says what its sink was given.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.faults.interrupted.notes import Notes
from tests.faults.spark.driver import session

_ROWS_A_BATCH: Final = 600
_MOST_S: Final = 0.5
_LIMIT_S: Final = 60.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--interrupts", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    directory, chance, notes = Path(given.directory), random.Random(given.seed), Notes()
    spark = session(directory, executors=False)
    while notes.interrupts.total() < given.interrupts:
        query = _started(spark, given, notes)
        _until_it_works(query, notes)
        time.sleep(chance.uniform(0, _MOST_S))
        if chance.random() < 0.5:
            query.stop()
            notes.interrupts["stop"] += 1
        elif _is_cancelled(spark, query):
            notes.interrupts["cancel"] += 1
    spark.stop()
    print(json.dumps(notes.told()), flush=True)
    return 0


def _started(spark: SparkSession, given: argparse.Namespace, notes: Notes) -> StreamingQuery:
    options = {"subscribe": given.topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": _ROWS_A_BATCH}
    rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", given.bootstrap).options(**options).load()

    def take(batch: DataFrame, _number: int) -> None:
        for partition, offset in sorted(batch.select("partition", "offset").collect()):
            notes.on_record(partition, offset)

    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", f"{given.directory}/checkpoint")
    return writer.start()


def _until_it_works(query: StreamingQuery, notes: Notes) -> None:
    """It has read something: the next batches follow at once."""
    until_at, known = time.monotonic() + _LIMIT_S, notes.seen
    while query.isActive and notes.seen == known:
        if time.monotonic() > until_at:
            raise RuntimeError(f"the query does nothing: {query.status}")
        time.sleep(0.01)


def _is_cancelled(spark: SparkSession, query: StreamingQuery) -> bool:
    """Whether its jobs could be cancelled while there were some: the query fails of it."""
    until_at = time.monotonic() + _LIMIT_S
    while query.isActive and time.monotonic() < until_at:
        spark.sparkContext.cancelAllJobs()
        try:
            query.awaitTermination(0.02)  # type: ignore[arg-type]  # it takes parts of a second too
        except StreamingQueryException:
            return True
    query.stop()
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
