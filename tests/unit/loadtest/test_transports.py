"""`make bench-transports`: its goals and its clients fit its rows."""

from __future__ import annotations

from loadtest.transports.__main__ import GOALS, ROWS
from loadtest.transports.client import Client, Meter


def test_each_goal_is_for_a_figure_of_a_row() -> None:
    """A goal without a figure would be reported as left out, whatever was measured."""
    figures = {f"{name}_{field}" for name, row in ROWS.items() for field in (*row.fields, "peak_mb")}
    assert GOALS.keys() <= figures


def test_each_row_is_a_use_of_the_client() -> None:
    assert all(callable(getattr(Client, name)) for name in ROWS)


def test_a_meter_returns_what_was_used_since_it_was_made() -> None:
    used_s = iter([5.0, 7.0])
    read = Meter((), lambda: next(used_s)).read(4)
    assert (read["client_us"], read["servers_us"], read["all_us"]) == (500_000, 0, 500_000)
