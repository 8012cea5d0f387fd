"""What it costs that each row is written once: the same stream into a topic, in micro-batches of 100,000 rows."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Literal

from pyspark.sql import SparkSession

import ottla
from loadtest.kafka.comparison import Pair, in_turn
from loadtest.spark.rates import SIZE, records_of
from loadtest.spark.sides import PARTITIONS, Side
from loadtest.spark.trickle import batches_ms

Delivery = Literal["exactly_once", "at_least_once"]

_ROWS: Final = 100_000
_BATCHES: Final = 15
_WARM_UP: Final = 3
_LIMIT_S: Final = 180.0


def measure(session: SparkSession, ours: Side, pairs: int) -> list[Pair]:
    """Raises TimeoutError where no batches come, ValueError where rows are missing."""
    deliveries: tuple[Delivery, Delivery] = ("exactly_once", "at_least_once")
    return in_turn(deliveries, pairs, lambda delivery, number: _once(session, ours, delivery, number))


def _once(session: SparkSession, ours: Side, delivery: Delivery, number: int) -> dict[str, Any]:
    topic = f"delivery-{delivery}-{number}"
    with ottla.Admin(ours.bootstrap) as admin, tempfile.TemporaryDirectory(prefix="ottla-delivery-") as checkpoint:
        admin.topics.create(topic, partitions=PARTITIONS)
        rows = session.readStream.format("rate-micro-batch")  # costs next to nothing itself
        rows = rows.option("rowsPerBatch", _ROWS).option("numPartitions", PARTITIONS)
        columns = rows.load().selectExpr(f"CAST(lpad(value, {SIZE}, '0') AS BINARY) AS value")
        query = ours.send(columns, topic, Path(checkpoint), delivery=delivery)
        try:
            taken = batches_ms(query, _WARM_UP + _BATCHES, time.monotonic() + _LIMIT_S)[_WARM_UP:]
        finally:
            query.stop()
        if (there := records_of(ours, topic)) < _ROWS * _BATCHES:
            raise ValueError(f"{there} rows were written {delivery}, of {_ROWS * _BATCHES} and more")
        admin.topics.delete(topic)
    return {"records_s": _ROWS / statistics.median(taken) * 1000}
