"""Departure delays by origin and window of event time, with the weather of the hour: two streams joined.

Reads flights and weather observations (JSON, whose timestamps are the scheduled departure and the hour observed), joins
each flight with its hour's weather at its origin, and writes one row per origin and window, once no flight of it can
come any more, to a topic and to Parquet (one directory a micro-batch: a repeated one replaces itself). With
--exactly-once a repeated micro-batch leaves the topic as it is, too.

A window ends when the event time of *both* topics has passed it by --watermark; flights that come later than that are
left out. Where the topics fall quiet, records of the topic --clock move the event time on, and say nothing else.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import job

_FLIGHT: Final = "flight BIGINT, origin STRING, dep_time BIGINT, dep_delay BIGINT"
_WEATHER: Final = "origin STRING, wind_speed DOUBLE, visib DOUBLE, precip DOUBLE"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument("--flights", default="flights", metavar="TOPIC", help="the topic of flights (%(default)s)")
    found.add_argument("--weather", default="weather", metavar="TOPIC", help="the topic of observations (%(default)s)")
    found.add_argument("--clock", metavar="TOPIC", help="a topic whose records advance the event time")
    found.add_argument(
        "--watermark", default="1 hour", metavar="DURATION", help="how late records may arrive (%(default)s)"
    )
    found.add_argument("--window", default="1 hour", metavar="DURATION", help="the length of a window (%(default)s)")
    found.add_argument(
        "--to-topic", default="delays", metavar="TOPIC", help="write rows as JSON to this topic (%(default)s)"
    )
    found.add_argument("--to-parquet", required=True, metavar="DIR", help="write rows as Parquet to this directory")
    found.add_argument(
        "--exactly-once",
        action="store_true",
        help="write each row to the topic exactly once, in transactions of the cluster",
    )
    job.add_stream(found)
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return the number of micro-batches that had windows to write, and of those windows."""
    written = {"batches": 0, "windows": 0}

    def write(windows: DataFrame, batch_id: int) -> None:
        windows.persist()
        count = windows.count()
        if count:
            windows.write.mode("overwrite").parquet(f"{options.to_parquet}/batch={batch_id}")
            once = job.once(spark, batch_id) if options.exactly_once else {}
            job.write_topic(as_records(windows), options, options.to_topic, **once)
            written["windows"] += count
        written["batches"] += 1
        windows.unpersist()

    flights = _source(spark, options, options.flights, _FLIGHT, "departs_at")
    weather = _source(spark, options, options.weather, _WEATHER, "observed_at")
    job.run_stream(
        delays(flights, weather, options.window).writeStream.foreachBatch(write), options, options.to_parquet
    )
    return written


def delays(flights: DataFrame, weather: DataFrame, length: str) -> DataFrame:
    """Return the windows. Sums of minutes are integers, so they are exact. `mean_delay` is their quotient."""
    observed = weather.withColumnRenamed("origin", "observed_origin")
    # The hour is a key of the join. Otherwise each flight would be compared with all weather that its origin ever had.
    # The bounds follow from the hour, and Spark needs them to know when it may forget.
    of_its_hour = f.expr(
        "origin = observed_origin AND date_trunc('hour', departs_at) = date_trunc('hour', observed_at)"
    ) & f.expr("observed_at <= departs_at AND observed_at > departs_at - INTERVAL 1 HOUR")
    left = f.col("dep_delay")
    return (
        flights.join(observed, of_its_hour, "leftOuter")
        .groupBy("origin", f.window("departs_at", length))
        .agg(
            f.count("flight").alias("flights"),
            f.count_if(f.col("flight").isNotNull() & f.col("dep_time").isNull()).alias("cancelled"),
            f.count(left).alias("departed"),
            f.coalesce(f.sum(left), f.lit(0)).alias("delay_minutes"),
            (f.sum(left) / f.count(left)).alias("mean_delay"),
            f.max(left).alias("max_delay"),
            f.max("wind_speed").alias("wind_speed"),
            f.min("visib").alias("visib"),
            f.max("precip").alias("precip"),
        )
        .where("flights > 0")  # otherwise only the clock was in it
        .withColumn("window", f.col("window.start"))
        .withColumnRenamed("window", "hour")
    )


def as_records(windows: DataFrame) -> DataFrame:
    """Return a row as a record. Its key is origin and hour, so that a repeated row replaces itself where keys do."""
    hour = f.date_format("hour", "yyyy-MM-dd'T'HH:mm'Z'")
    value = f.to_json(f.struct("origin", hour.alias("hour"), *_numbers(windows)))
    return windows.select(f.concat_ws(" ", "origin", hour).alias("key"), value.alias("value"))


def _numbers(windows: DataFrame) -> list[Column]:
    return [f.col(name) for name in windows.columns if name not in ("origin", "hour")]


def _source(spark: SparkSession, options: argparse.Namespace, topic: str, columns: str, time: str) -> DataFrame:
    """Return a topic's JSON as columns under a watermark, including the clock's records, which have nothing but their
    time."""
    topics = f"{topic},{options.clock}" if options.clock else topic
    value = f.from_json(f.col("value").cast("string"), columns).alias("value")
    rows = job.read_stream(spark, options, topics).select(f.col("timestamp").alias(time), value)
    # The value is never null: Spark drops rows that can't be joined before it looks at their time, and the clock would
    # stand still.
    return (
        rows.withWatermark(time, options.watermark)
        .select(time, "value.*")
        .withColumn("origin", f.coalesce("origin", f.lit("")))
    )


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
