"""How fast Spark reads and writes records of 100 B, through one side or the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from peers.spark.session import jvm_pid
from pyspark.sql import DataFrame, SparkSession

import ottla
from loadtest.kafka.comparison import Pair, in_turn
from loadtest.programs import run
from loadtest.spark.processes import cpu_seconds
from loadtest.spark.sides import PARTITIONS, Side

SIZE: Final = 100
WARM_UP_PAIRS: Final = 3
"""Pairs of a new session that don't count: for its first seconds, a JVM interprets what it compiles later."""


def measure_reads(session: SparkSession, sides: tuple[Side, Side], pairs: int, topic: str) -> list[Pair]:
    """Both read the same topic. Raises ValueError where one does not read all of it."""
    count = records_of(sides[0], topic)
    for side in sides:
        if (read := side.read(session, topic).count()) != count:
            raise ValueError(f"{side.name} reads {read} records of {count}")

    def once(side: Side, _: int) -> dict[str, Any]:
        rows = side.read(session, topic)
        return timed(session, count, rows.write.format("noop").mode("overwrite").save)

    return in_turn(sides, pairs, once)


def measure_writes(session: SparkSession, sides: tuple[Side, Side], pairs: int, records: int) -> list[Pair]:
    """Each run writes a topic of its own. Raises ValueError where not all of it has come."""
    rows = rows_to_write(session, records)

    def once(side: Side, number: int) -> dict[str, Any]:
        with ottla.Admin(sides[0].bootstrap) as admin:
            topic = f"write-{session.sparkContext.defaultParallelism}-{side.name}-{number}"
            admin.topics.create(topic, partitions=PARTITIONS)
            os.sync()  # so that nobody runs while the disk still writes what the other has left
            found = timed(session, records, partial(side.write, rows, topic))
            if (there := records_of(sides[0], topic)) < records:
                raise ValueError(f"{side.name} wrote {there} records of {records}")
            admin.topics.delete(topic)
        return found

    return in_turn(sides, pairs, once)


def fill(ottla_side: Side, topic: str, records: int) -> None:
    """Make a topic of so many records."""
    with ottla.Admin(ottla_side.bootstrap) as admin:
        admin.topics.create(topic, partitions=PARTITIONS)
    run("rows.produce", ottla_side.bootstrap, "--topic", topic, "--records", str(records - 1), "--size", str(SIZE))


def rows_to_write(session: SparkSession, records: int) -> DataFrame:
    return session.range(0, records, 1, PARTITIONS).selectExpr(f"CAST(lpad(id, {SIZE}, '0') AS BINARY) AS value")


def records_of(ottla_side: Side, topic: str) -> int:
    """How many there are, in a topic from which nothing was deleted."""
    with ottla.Admin(ottla_side.bootstrap) as admin:
        return sum(end or 0 for end in admin.topics.offsets(topic).values())


def timed(session: SparkSession, records: int, work: Callable[[], None]) -> dict[str, Any]:
    """CPU is Spark's alone: the JVM's and the workers', not the broker's."""
    jvm = jvm_pid(session)
    cpu_s, began = cpu_seconds(jvm), time.monotonic()
    work()
    seconds = time.monotonic() - began
    return {"records": records, "records_s": records / seconds, "cpu_s": cpu_seconds(jvm) - cpu_s}
