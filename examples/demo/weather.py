"""The weather at New York's airports, hour by hour."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from examples.demo import dataset

TOPIC: Final = "weather"


class Observation(NamedTuple):
    """A row as it is sent: `timestamp_ms` is the hour that was observed."""

    origin: str
    timestamp_ms: int
    value: bytes


def read_weather(until_ms: int) -> list[Observation]:
    """What was observed up to then, in order of time."""
    rows = [(int(datetime.fromisoformat(row["time_hour"]).timestamp()) * 1000, row) for row in dataset.weather()]
    observations = [Observation(row["origin"], at_ms, dataset.as_json(row)) for at_ms, row in rows if at_ms <= until_ms]
    return sorted(observations, key=lambda observation: observation.timestamp_ms)
