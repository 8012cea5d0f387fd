"""How long a micro-batch takes where little comes: a hundred records a second, and a batch right after another."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ottla
from loadtest.kafka.comparison import Pair, in_turn
from loadtest.spark.own_share import NAME, own_share_ms, timed_source, times_ms
from loadtest.spark.sides import PARTITIONS, Side

_TOPIC: Final = "trickle"
_RECORDS_S: Final = 100
_BATCHES: Final = 30
_WARM_UP: Final = 5
"""The first batches of a query, which start its workers."""
_LIMIT_S: Final = 120.0


def measure(session: SparkSession, sides: tuple[Side, Side], pairs: int) -> list[Pair]:
    """Both follow the same topic, one after the other. Raises TimeoutError where no batches come."""
    with ottla.Admin(sides[0].bootstrap) as admin:
        admin.topics.create(_TOPIC, partitions=PARTITIONS)
    with _trickle(sides[0].bootstrap, _TOPIC):
        return in_turn(sides, pairs, lambda side, _: _once(session, side, _TOPIC))


def own_share(session: SparkSession, ours: Side, directory: Path) -> tuple[float, Mapping[str, float]]:
    """ms of a micro-batch that are ours, of the topic that was measured; and the median of each call."""
    session.dataSource.register(timed_source(directory))
    with _trickle(ours.bootstrap, _TOPIC):
        _once(session, replace(ours, name=NAME), _TOPIC)
    times = times_ms(directory)
    return own_share_ms(times, PARTITIONS, session.sparkContext.defaultParallelism), times


def _once(session: SparkSession, side: Side, topic: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ottla-trickle-") as checkpoint:
        query = side.follow(session, topic, Path(checkpoint))
        try:
            measured = batches_ms(query, _WARM_UP + _BATCHES, time.monotonic() + _LIMIT_S)[_WARM_UP:]
        finally:
            query.stop()
    return {"median_ms": statistics.median(measured), "longest_ms": max(measured)}


def batches_ms(query: StreamingQuery, count: int, give_up_at: float) -> list[int]:
    """Wait for `count` batches with records, and return how long the trigger of each took.

    Raises TimeoutError if they are not complete by that monotonic time, and the error that made the query fail.
    """
    while len(taken := _taken_ms(query.recentProgress)) < count:
        if (failure := query.exception()) is not None:
            raise failure
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the query ran {len(taken)} batches of {count}")
        time.sleep(0.1)
    return taken


def _taken_ms(progress: list[Any]) -> list[int]:
    return [each.durationMs["triggerExecution"] for each in progress if each.numInputRows]


@contextmanager
def _trickle(bootstrap: str, topic: str) -> Iterator[None]:
    ended = threading.Event()

    def write() -> None:
        began = time.monotonic()
        with ottla.Producer(bootstrap, topic=topic, value="bytes", linger=0) as producer:
            for number in itertools.count():
                producer.send(b"%099d" % number, partition=number % PARTITIONS)
                if ended.wait(max(0.0, began + number / _RECORDS_S - time.monotonic())):
                    return

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join(_LIMIT_S)
