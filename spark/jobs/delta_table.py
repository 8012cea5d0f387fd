"""A topic as a Delta Lake table, each row once for every reader of Delta; by the library `deltalake`, without a jar.

Delta keeps, with each commit, the number of the last micro-batch of a query (`txnAppId`, `txnVersion`): a micro-batch
that is done again, because the job died before Spark noted it, is left out. The driver writes: a micro-batch has to fit
into it (--max-records). With PySpark 4.2 and delta-spark the executors write: docs/use/spark.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import Any, Final

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import job

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_MAX_RECORDS: Final = 200_000


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument("--topic", required=True, help="the topics to keep, separated by commas")
    found.add_argument("--to", required=True, metavar="DIR", help="the directory of the table")
    job.add_stream(found)
    found.set_defaults(max_records=_MAX_RECORDS)
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return the table's version, and the offsets up to which it holds the topic."""
    rows = job.read_stream(spark, options, options.topic).select(*_COLUMNS)
    query = job.run_stream(rows.writeStream.foreachBatch(partial(append, options.to)), options, options.to)
    progress = query.lastProgress
    version = DeltaTable(options.to).version() if DeltaTable.is_deltatable(options.to) else None
    return {"version": version, "ends": json.loads(progress.sources[0].endOffset) if progress is not None else {}}


def append(path: str, rows: DataFrame, batch_id: int) -> None:
    """Write a micro-batch, unless the table has it. Raises if another run of the query does so at the same time."""
    query = job.query_of(rows.sparkSession)
    table = DeltaTable(path) if DeltaTable.is_deltatable(path) else None
    last = None if table is None else table.transaction_version(query)
    if last is not None and last >= batch_id:
        return
    written = CommitProperties(app_transactions=[Transaction(query, batch_id)])
    write_deltalake(table or path, rows.toArrow(), mode="append", commit_properties=written)


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
