"""The same numbers by pandas, from the files of the data set: those of the job and the lake have to be equal.

Counts and minutes are integers and `mean_delay` is the quotient of two of them, so everything is compared exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd
from examples.demo import dataset

import ottla

_BY: Final = ["origin", "hour"]
_WEATHER: Final = ["wind_speed", "visib", "precip"]


def by_pandas(flights: int) -> pd.DataFrame:
    """Delays per origin and hour of the first N flights, with the weather of each hour."""
    names = ["time_hour", "minute", "origin", "dep_time", "dep_delay"]
    left = pd.read_csv(dataset.path("flights.csv.zip"), usecols=names, parse_dates=["time_hour"])
    left = left.rename(columns={"time_hour": "hour"}).sort_values(["hour", "minute"], kind="stable")
    weather = pd.read_csv(
        dataset.path("weather.csv"),
        usecols=["origin", "time_hour", *_WEATHER],
        parse_dates=["time_hour"],
        float_precision="round_trip",  # or else the last bit of some differs from what the text says
    )
    return _delays(left.head(flights)).join(weather.rename(columns={"time_hour": "hour"}).set_index(_BY))


def of_lake(directory: Path) -> tuple[int, pd.DataFrame]:
    """The number of rows in the lake, and delays per origin and hour of them."""
    rows = pd.read_parquet(directory, columns=["timestamp", "origin", "dep_time", "dep_delay"])
    return len(rows), _delays(rows.assign(hour=pd.to_datetime(rows.timestamp, utc=True).dt.floor("h")))


def of_windows(directory: Path) -> pd.DataFrame:
    """What the job `delays` has written."""
    rows = pd.read_parquet(directory)
    return rows.assign(hour=pd.to_datetime(rows.hour, utc=True)).set_index(_BY).drop(columns=["batch"])


def of_topic(bootstrap: str, topic: str) -> pd.DataFrame:
    """What the job has written to its topic and committed."""
    rows = pd.DataFrame([record.value for record in ottla.read(topic, bootstrap=bootstrap, value="json")])
    return rows.assign(hour=pd.to_datetime(rows.hour, utc=True)).set_index(_BY)


def differences(found: pd.DataFrame, expected: pd.DataFrame) -> int:
    """Return the number of rows that are in only one of them, in `found` twice, or differ in a column of it."""
    repeated = found.index.duplicated()
    once = found[~repeated]
    index = expected.index.union(once.index)
    mine, theirs = (table.reindex(index)[found.columns].astype(float) for table in (once, expected))
    same = (mine == theirs) | (mine.isna() & theirs.isna())
    return int((~same.all(axis=1)).sum() + repeated.sum())


def _delays(flights: pd.DataFrame) -> pd.DataFrame:
    table = flights.groupby(_BY).agg(
        flights=("origin", "size"),
        departed=("dep_delay", "count"),
        delay_minutes=("dep_delay", "sum"),
        max_delay=("dep_delay", "max"),
        with_time=("dep_time", "count"),
    )
    table["cancelled"] = table.flights - table.pop("with_time")
    table["mean_delay"] = table.delay_minutes / table.departed
    return table
