"""A topic against its lake: what is missing, what occurs twice, and how far behind the lake is. Exits with 3 on loss.

The lake answers for what its checkpoint says it has (or, where there is none, for what lies before its last record): of
that, every record that the topic still holds must be in the lake once, and so must what the topic has deleted since.
What comes after is lag: in offsets, and in seconds between the newest records' timestamps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import job
from pyspark_ottla.machines.offsets import from_json

_FIRST_SOURCE: Final = 2
"""The line of a checkpoint's offsets that has those of the first source. A version and settings come before it."""

_SUMMED: Final = ("present", "missing", "repeated", "foreign", "lag")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument("--topic", required=True, help="the topic to audit")
    found.add_argument("--lake", required=True, metavar="DIR", help="the directory that the job `lake` wrote from it")
    found.add_argument("--checkpoint", metavar="DIR", help="the lake's checkpoint, if it is outside the lake")
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return sums, a row for each partition, and "exit" if a record is missing, repeated or foreign."""
    with job.admin(options) as admin:
        first = admin.topics.offsets(options.topic, "earliest")
        end = admin.topics.offsets(options.topic, "latest")
    claimed = retained_until(spark, options.checkpoint or job.checkpoint_of(options.lake), options.topic)
    rows = compared(_topic(spark, options, end), _lake(spark, options), claimed).collect()
    found = {row.partition: row.asDict() for row in rows}
    report = [_partition(number, first[number] or 0, end[number] or 0, found.get(number, {})) for number in sorted(end)]
    sums: dict[str, Any] = {name: sum(entry[name] for entry in report) for name in _SUMMED}
    sums["lag_s"] = max((entry["lag_s"] for entry in report), default=0.0)
    ok = not (sums["missing"] or sums["repeated"] or sums["foreign"])
    return {"topic": options.topic, "ok": ok, **sums, "partitions": report, "exit": 0 if ok else job.FOUND}


def retained_until(spark: SparkSession, checkpoint: str, topic: str) -> dict[int, int]:
    """Return the offsets up to which the lake's last complete micro-batch has the partitions, or none without a
    checkpoint."""
    try:
        commits = spark.read.text(f"{checkpoint}/commits", wholetext=True).select("_metadata.file_name").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return {}
    last = max((int(row.file_name) for row in commits), default=None)
    if last is None:
        return {}
    lines = spark.read.text(f"{checkpoint}/offsets/{last}").collect()
    offsets = from_json(json.loads(lines[_FIRST_SOURCE].value))
    return {partition.partition: offset for partition, offset in offsets.items() if partition.topic == topic}


def compared(topic: DataFrame, lake: DataFrame, claimed: dict[int, int]) -> DataFrame:
    """Return one row for each partition that is in either: what the topic has and the lake lacks, and the other way
    round."""
    spark = topic.sparkSession
    ends = spark.createDataFrame(list(claimed.items()), "partition INT, kept_until BIGINT")
    if not claimed:
        ends = lake.groupBy("partition").agg((f.max("offset") + 1).alias("kept_until"))
    kept = lake.groupBy("partition", "offset").agg(f.count("*").alias("times"), f.max("timestamp").alias("kept_at"))
    both = topic.join(kept, ["partition", "offset"], "fullOuter").join(f.broadcast(ends), "partition", "left")
    lacks = f.col("times").isNull()
    newest_kept = f.coalesce(f.max("kept_at"), f.min("sent_at"))
    is_kept = f.col("offset") < f.coalesce("kept_until", f.lit(0))
    return both.groupBy("partition").agg(
        f.count("times").alias("present"),
        f.count_if(lacks & is_kept).alias("missing"),
        f.min(f.when(lacks & is_kept, f.col("offset"))).alias("first_missing"),
        f.coalesce(f.sum(f.col("times") - 1), f.lit(0)).alias("repeated"),
        f.count_if(lacks & ~is_kept).alias("lag"),
        f.coalesce(f.max("kept_until"), f.lit(0)).alias("kept_until"),
        f.coalesce(f.max(f.when(~lacks, f.col("offset"))), f.lit(-1)).alias("last_kept"),
        (f.unix_millis(f.max("sent_at")) - f.unix_millis(newest_kept)).alias("lag_ms"),
    )


def _partition(number: int, first: int, end: int, row: dict[str, Any]) -> dict[str, Any]:
    retained_until = row.get("kept_until", 0)
    gone = max(0, first - retained_until) if retained_until else 0  # the topic has deleted them first
    first_missing = retained_until if gone and row.get("first_missing") is None else row.get("first_missing")
    return {
        "partition": number,
        "present": row.get("present", 0),
        "missing": row.get("missing", 0) + gone,
        "first_missing": first_missing,
        "repeated": row.get("repeated", 0),
        "foreign": max(0, row.get("last_kept", -1) + 1 - end),
        "lag": row.get("lag", 0),
        "lag_s": max(0, row.get("lag_ms") or 0) / 1000,
    }


def _topic(spark: SparkSession, options: argparse.Namespace, end: Mapping[int, int | None]) -> DataFrame:
    ends = {options.topic: {str(number): offset or 0 for number, offset in end.items()}}
    records = job.read_topics(spark, options, options.topic, endingOffsets=json.dumps(ends))
    return records.select("partition", "offset", f.col("timestamp").alias("sent_at"))


def _lake(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Return the rows of the files that the lake's list names. The rows of a file that is gone are missing."""
    rows = spark.read.option("ignoreMissingFiles", "true").parquet(options.lake)
    return rows.where(f.col("topic") == options.topic).select("partition", "offset", "timestamp")


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
