"""A topic as a lake: Parquet files in directories by day (or month, or hour) of the records' timestamps.

Resumable: the checkpoint says how far the lake is, and what was written by a run that was killed is not in the list of
files that Spark keeps in `_spark_metadata`: a reader of the lake with Spark sees no row twice. One run a lake
at a time.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import job

_RECORD: Final = ("topic", "partition", "offset", "timestamp", "key")
_UNITS: Final = {"month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument("--topic", required=True, help="the topics to keep, separated by commas")
    found.add_argument("--to", required=True, metavar="DIR", help="the directory of the lake")
    found.add_argument(
        "--by", choices=sorted(_UNITS), default="day", help="the period that one directory holds (%(default)s)"
    )
    found.add_argument(
        "--json",
        metavar="COLUMNS",
        help="store these columns of the JSON values instead, such as 'id INT, to STRING'",
    )
    found.add_argument("--headers", action="store_true", help="keep the headers as well")
    found.add_argument(
        "--audit", action="store_true", help="compare the lake with its one topic at the end, like audit.py"
    )
    job.add_stream(found)
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return the last micro-batch of this run, and the offsets up to which the lake holds the topic.

    With `--audit`, also return what the job `audit` returns, as "audit".
    """
    records = job.read_stream(spark, options, options.topic, includeHeaders=str(options.headers).lower())
    when = f.date_format("timestamp", _UNITS[options.by]).alias(options.by)
    value = f.from_json(f.col("value").cast("string"), options.json) if options.json else f.col("value")
    names = [*_RECORD, *(["headers"] if options.headers else [])]
    rows = records.select(*names, value.alias("value"), when)
    if options.json:
        rows = rows.select(*names, "value.*", options.by)
    writer = rows.writeStream.format("parquet").partitionBy(options.by).option("path", options.to)
    query = job.run_stream(writer, options, options.to)
    progress = query.lastProgress
    last_batch, ends = None, {}
    if progress is not None:
        last_batch, ends = progress.batchId, json.loads(progress.sources[0].endOffset)
    report: dict[str, Any] = {"last_batch": last_batch, "ends": ends}
    if options.audit:
        import audit  # not at the top: under spark-submit, `--py-files` has to name it

        report["audit"] = audit.run(spark, argparse.Namespace(**vars(options), lake=options.to))
        report["exit"] = report["audit"].pop("exit")
    return report


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
