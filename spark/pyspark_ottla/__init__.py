"""`format("ottla")`: Spark reads and writes ottla's topics through PySpark, without a jar.

    orders = spark.readStream.format("ottla").option("subscribe", "orders").load()

Spark finds this package by its name and registers `DefaultSource` by itself. Columns, options, names and defaults are
those of Spark's own Kafka source and sink. docs/use/spark.md has the table, and lists what ottla has besides.
"""

from typing import TYPE_CHECKING, Any

from pyspark_ottla.source import OttlaDataSource as DefaultSource

if TYPE_CHECKING:
    from pyspark_ottla.lag import LagListener

__all__ = ["DefaultSource", "LagListener"]


def __getattr__(name: str) -> Any:
    """Return the listener, which is imported late: it is for drivers, and most processes that import this package are
    workers."""
    if name == "LagListener":
        from pyspark_ottla.lag import LagListener

        return LagListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
