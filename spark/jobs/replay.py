"""The records of a range of time once more: into another topic, as Parquet, or onto the screen.

Times are ISO 8601 (2013-07-04T00:00Z; without a zone: UTC) or milliseconds since 1970; --from is in it, --to is not.
Into a topic, keys, values, headers and the order of each partition stay; the header `original-timestamp` has the time
that a record had (ms), for it gets a new one. A replay that fails half-way may be run again: what was sent stays sent.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

import job

_SHOWN: Final = 1_000
_HEADERS: Final = "array<struct<key:string,value:binary>>"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument("--topic", required=True, help="the topics to read, separated by commas")
    found.add_argument(
        "--from", dest="start_ms", type=instant_ms, default=0, metavar="TIME", help="replay from this time on"
    )
    found.add_argument(
        "--to",
        dest="end_ms",
        type=instant_ms,
        metavar="TIME",
        help="replay up to this time, exclusive (all records that exist now)",
    )
    where = found.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-topic", metavar="TOPIC", help="write to this topic")
    where.add_argument("--to-parquet", metavar="DIR", help="write to this directory, which must not exist yet")
    where.add_argument("--console", action="store_true", help=f"print the first {_SHOWN:,}")
    found.add_argument(
        "--keep-partitions", action="store_true", help="write each record to the partition of the same number"
    )
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return the number of records replayed."""
    count = Observation("replay")
    records = in_range(spark, options).observe(count, f.count(f.lit(1)).alias("records"))
    if options.to_topic:
        job.write_topic(_as_sent(records, options), options, options.to_topic, includeHeaders="true")
    elif options.to_parquet:
        records.write.parquet(options.to_parquet)
    else:
        shown = [f.col(name).cast("string") if name in ("key", "value") else f.col(name) for name in records.columns]
        rows = records.select(shown).limit(_SHOWN).collect()
        for row in rows:
            print(row.timestamp.isoformat(), f"{row.topic}-{row.partition}@{row.offset}", row.key, row.value)
        return {"records": len(rows)}
    return {"records": count.get["records"]}


def in_range(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Return the records of that time. Offsets are looked up by time. If times go up and down, the filter is exact."""
    bounds = {"startingTimestamp": str(options.start_ms), "startingOffsetsByTimestampStrategy": "latest"}
    in_time = f.unix_millis("timestamp") >= options.start_ms
    if options.end_ms is not None:
        bounds["endingTimestamp"] = str(options.end_ms)
        in_time &= f.unix_millis("timestamp") < options.end_ms
    return job.read_topics(spark, options, options.topic, includeHeaders="true", **bounds).where(in_time)


def _as_sent(records: DataFrame, options: argparse.Namespace) -> DataFrame:
    time = f.unix_millis("timestamp").cast("string").cast("binary")
    header = f.array(f.struct(f.lit("original-timestamp").alias("key"), time.alias("value")))
    headers = f.concat(f.coalesce("headers", f.array().cast(_HEADERS)), header).alias("headers")
    return records.select("key", "value", headers, *(["partition"] if options.keep_partitions else []))


def instant_ms(text: str) -> int:
    """Return milliseconds since 1970. Raises ArgumentTypeError."""
    try:
        if text.isdigit():
            return int(text)
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text} is not a time; give a time such as 2013-07-04T00:00Z, or milliseconds since 1970"
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
