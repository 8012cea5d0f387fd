"""How long a micro-batch takes where little comes: a hundred records a second, and a batch right after another."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

import ottla
from loadtest.kafka.comparison import Pair, in_turn
from loadtest.spark.sides import PARTITIONS, Side

_RECORDS_S: Final = 100
_BATCHES: Final = 30
_WARM_UP: Final = 5
"""The first batches of a query, which start its workers."""
_LIMIT_S: Final = 120.0


def measure(session: SparkSession, sides: tuple[Side, Side], pairs: int) -> list[Pair]:
    """Both follow the same topic, one after the other. Raises TimeoutError where no batches come."""
    topic = "trickle"
    with ottla.Admin(sides[0].bootstrap) as admin:
        admin.topics.create(topic, partitions=PARTITIONS)
    with _trickle(sides[0].bootstrap, topic):
        return in_turn(sides, pairs, lambda side, _: _once(session, side, topic))


def _once(session: SparkSession, side: Side, topic: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ottla-trickle-") as checkpoint:
        query = side.follow(session, topic, Path(checkpoint))
        try:
            give_up_at = time.monotonic() + _LIMIT_S
            while len(taken := _taken_ms(query.recentProgress)) < _WARM_UP + _BATCHES:
                if (failure := query.exception()) is not None:
                    raise failure
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"{side.name} ran {len(taken)} batches in {_LIMIT_S:g} s")
                time.sleep(0.1)
        finally:
            query.stop()
    measured = taken[_WARM_UP:]
    return {"median_ms": statistics.median(measured), "longest_ms": max(measured)}


def _taken_ms(progress: list[Any]) -> list[int]:
    """Of each batch that had records, all that its trigger did."""
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
