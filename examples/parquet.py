"""A topic as a folder of Parquet files, and the folder as a topic again, which has the same records.

    pip install "ottla[spark]"
    ottla up
    python examples/parquet.py localhost:9092 orders orders.parquet orders-restored

Both ways are batches, without a jar. For a stream into Parquet, see `spark/jobs/lake.py`.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

import ottla

CONTENT = ["key", "value", "headers", "partition"]


def records(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return the records that the topic has now."""
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("includeHeaders", True).load()


def restore(rows: DataFrame, bootstrap: str, topic: str) -> None:
    """Write the rows to a topic, each to the partition that it was in, and in the order that it had there."""
    in_order = rows.repartition("partition").sortWithinPartitions("partition", "offset").select(CONTENT)
    sink = in_order.write.format("ottla").mode("append").option("kafka.bootstrap.servers", bootstrap)
    sink.option("topic", topic).option("includeHeaders", True).save()


def main(bootstrap: str, topic: str, folder: str, restored: str) -> int:
    with ottla.Admin(bootstrap) as admin:
        (found,) = admin.topics.describe(topic)
        admin.topics.create(restored, partitions=len(found.partitions))
    spark = SparkSession.builder.appName("parquet").getOrCreate()
    records(spark, bootstrap, topic).write.mode("overwrite").parquet(folder)
    restore(spark.read.parquet(folder), bootstrap, restored)

    before, after = (records(spark, bootstrap, each).select(CONTENT).cache() for each in (topic, restored))
    counts, missing = (before.count(), after.count()), before.exceptAll(after).count()
    print(f"{counts[0]} records, {counts[1]} restored, {missing} missing")
    return 0 if counts[0] == counts[1] and not missing else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
