"""`format("ottla")`: Spark reads and writes ottla's topics through PySpark, without a jar.

    orders = spark.readStream.format("ottla").option("subscribe", "orders").load()

Spark finds this package by its name and registers `DefaultSource` by itself. Columns, options, names and defaults are
those of Spark's own Kafka source and sink; docs/spark.md has the table, and what is here besides.
"""

from pyspark_ottla.lag import LagListener
from pyspark_ottla.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource", "LagListener"]
