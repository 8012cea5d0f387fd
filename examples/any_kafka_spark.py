"""One Spark job for every Kafka, without a jar: a stream from one topic to another, and the totals of the result.

    pip install "ottla[spark]"
    python examples/any_kafka_spark.py localhost:9092 payments cents checkpoint

The broker is one of ottla, or of Apache Kafka 3.3 or later. Both topics have to exist; `examples/any_kafka.py` fills
`payments`. A second run with the same checkpoint goes on where the first one ended.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession


def in_cents(payments: DataFrame) -> DataFrame:
    return payments.selectExpr("key", "cast(100 * cast(cast(value AS string) AS int) AS string) AS value")


def totals(cents: DataFrame) -> DataFrame:
    amounts = cents.selectExpr("cast(key AS string) AS account", "cast(cast(value AS string) AS long) AS amount")
    return amounts.groupBy("account").sum("amount").orderBy("account")


def main(bootstrap: str, source: str, sink: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("any-kafka").getOrCreate()
    cluster = {"kafka.bootstrap.servers": bootstrap}
    payments = spark.readStream.format("ottla").options(**cluster, subscribe=source, startingOffsets="earliest").load()
    stream = in_cents(payments).writeStream.format("ottla").options(**cluster, topic=sink)
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    for account, amount in totals(spark.read.format("ottla").options(**cluster, subscribe=sink).load()).collect():
        print(account, amount)


if __name__ == "__main__":
    main(*sys.argv[1:])
