"""A Spark job between topics, by a stream and by a batch. It prints its plans, and Spark logs its events.

`python secured_job.py JSON`: `source` and `sink` are options, `settings` are Spark's own.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(arguments: str) -> None:
    given = json.loads(arguments)
    builder = SparkSession.builder.appName("secured")
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    stream = spark.readStream.format("ottla").options(**given["source"], startingOffsets="earliest").load()
    sink = stream.selectExpr("key", "value").writeStream.format("ottla").options(**given["sink"])
    query = sink.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    print(json.dumps([progress.json for progress in query.recentProgress]))
    rows = spark.read.format("ottla").options(**given["source"]).load()
    rows.explain(mode="extended")
    rows.selectExpr("key", "value").write.format("ottla").mode("append").options(**given["sink"]).save()
    print(rows.count())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
