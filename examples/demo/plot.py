"""The picture: the mean departure delay over the hours of a day at each origin."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import pandas as pd
from matplotlib.figure import Figure

_TIME_ZONE = "America/New_York"


def plot(windows: pd.DataFrame, path: Path) -> None:
    """Write a PNG of delays per origin and hour (local time) from rows by (origin, hour)."""
    by_hour = windows.reset_index()
    by_hour["hour"] = by_hour.hour.dt.tz_convert(_TIME_ZONE).dt.hour
    sums = by_hour.groupby(["origin", "hour"])[["delay_minutes", "departed"]].sum().reset_index()
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for origin, rows in sums.groupby("origin"):
        axes.plot(rows.hour, rows.delay_minutes / rows.departed, marker="o", label=origin)
    flights = int(windows.flights.sum())
    axes.set(
        title=f"Departure delays, New York 2013: {flights:,} flights in {len(windows):,} windows",
        xlabel="scheduled hour of departure (local time)",
        ylabel="mean delay (minutes)",
    )
    axes.set_xticks(sorted(sums.hour.unique()))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
