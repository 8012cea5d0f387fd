"""The flights, in the order of their scheduled time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from examples.demo import dataset

TOPIC: Final = "flights"
FLIGHTS: Final = 336_776


class Flight(NamedTuple):
    """A row as it is sent: `number` goes into a header, `timestamp_ms` is the scheduled departure."""

    number: int
    carrier: str
    timestamp_ms: int
    value: bytes


def read_flights(limit: int = FLIGHTS) -> list[Flight]:
    """The first `limit` flights in order of scheduled time; equal times keep the order of the file."""
    rows = list(dataset.flights())
    hours: dict[str, int] = {}
    for row in rows:
        if (hour := row["time_hour"]) not in hours:
            hours[hour] = int(datetime.fromisoformat(hour).timestamp()) * 1000
    scheduled = sorted((hours[row["time_hour"]] + int(row["minute"]) * 60_000, n) for n, row in enumerate(rows))
    return [
        Flight(number, rows[n]["carrier"], at_ms, dataset.as_json(rows[n]))
        for number, (at_ms, n) in enumerate(scheduled[:limit])
    ]


def digest(flights: Iterable[Flight]) -> str:
    """SHA-256 over number, carrier, time and value of each flight, in the order given."""
    sha = hashlib.sha256()
    for flight in flights:
        sha.update(b"%d|%s|%d|%s\n" % (flight.number, flight.carrier.encode(), flight.timestamp_ms, flight.value))
    return sha.hexdigest()
