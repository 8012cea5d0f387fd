"""Copy a topic into a Delta table by Spark's executors, and new rows of the table into another topic: each row once.

    pip install "ottla[spark]" "pyspark==4.2.*"
    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 \
        examples/delta_lake.py localhost:9092 orders table orders-of-the-table

You can kill this program at any moment and start it again. Delta remembers which micro-batches it has written, and so
does the topic.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter


def session() -> SparkSession:
    """Return a Spark session that can read and write Delta tables."""
    builder = SparkSession.builder.appName("delta lake").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return builder.config("spark.sql.catalog.spark_catalog", catalog).getOrCreate()


def run(writer: DataStreamWriter, checkpoint: str) -> None:
    """Write the rows that are available now, starting where the checkpoint says."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def main(bootstrap: str, topic: str, table: str, following: str) -> None:
    spark = session()
    records = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    run(records.load().writeStream.format("delta").option("path", table), f"{table}/_checkpoints/in")

    rows = spark.readStream.format("delta").load(table).select("key", "value")
    sink = rows.writeStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    run(sink.option("topic", following).option("delivery", "exactly_once"), f"{table}/_checkpoints/out")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
