"""The writing side: flights and weather in the order of their time, and at the end a tick of the clock.

At the end of each month everything is acknowledged before the next is sent. So no partition is ever more than a month
behind another in event time, which is what the watermark of the job that joins the two topics allows for.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final

from examples.demo import flights, weather
from examples.demo.flights import Flight
from examples.demo.weather import Observation

import ottla

CLOCK: Final = "clock"
DELAYS: Final = "delays"
PARTITIONS: Final = {flights.TOPIC: 6, weather.TOPIC: 3, CLOCK: 1, DELAYS: 3}
WATERMARK_DAYS: Final = 60
"""A month, and as much again for the time that it takes to look up the ends of all partitions, one after the other."""

_LIMIT_S: Final = 90.0
_DAY_MS: Final = 86_400_000
_MONTH_MS: Final = 30 * _DAY_MS
MONTH_S: Final = 0.5
SLOW_MONTH_S: Final = 1.5
"""The least time for a month, so that a stream is in the middle of its work when half of the year is sent."""

_REPORT_EVERY: Final = 2_000

Row = tuple[int, str, dict[str, Any]]
"""The timestamp, the topic, and the other arguments of `send`."""


def create_topics(bootstrap: str) -> None:
    """Create all topics of the demo; nothing expires, although it all happened in 2013."""
    with ottla.Admin(bootstrap) as admin:
        for name, partitions in PARTITIONS.items():
            admin.topics.create(name, partitions=partitions, config={"retention.ms": "-1"})


def produce(
    bootstrap: str, sent: list[Flight], seen: list[Observation], report: Callable[[int], None], month_s: float
) -> None:
    """Send both, a month in at least `month_s` seconds, and report how many flights have been sent.

    Raises the error of a failed delivery.
    """
    rows = heapq.merge(_observations(seen), _flights(sent), key=lambda row: row[0])
    number = 0
    with ottla.Producer(bootstrap, key="str", value="bytes", compression="zstd") as producer:
        for _, of_a_month in groupby(rows, key=lambda row: row[0] // _MONTH_MS):
            due_at = time.monotonic() + month_s
            deliveries = []
            for at_ms, topic, fields in of_a_month:
                deliveries.append(producer.send(topic=topic, timestamp=at_ms, **fields))
                number += topic == flights.TOPIC
                if number % _REPORT_EVERY == 0:
                    report(number)
            producer.flush()
            for delivery in deliveries:
                delivery.result(timeout=_LIMIT_S)
            time.sleep(max(0.0, due_at - time.monotonic()))
    report(number)


def tick(bootstrap: str, last_ms: int) -> None:
    """Move event time past everything, so that the last windows close."""
    with ottla.Producer(bootstrap, topic=CLOCK, value="bytes") as producer:
        producer.send(None, timestamp=last_ms + (WATERMARK_DAYS + 1) * _DAY_MS)


def _flights(sent: list[Flight]) -> Iterator[Row]:
    for flight in sent:
        headers = [("row", b"%d" % flight.number)]
        yield flight.timestamp_ms, flights.TOPIC, {"value": flight.value, "key": flight.carrier, "headers": headers}


def _observations(seen: list[Observation]) -> Iterator[Row]:
    for observation in seen:
        yield observation.timestamp_ms, weather.TOPIC, {"value": observation.value, "key": observation.origin}
