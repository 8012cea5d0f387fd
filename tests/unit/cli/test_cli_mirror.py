"""How fast a mirror copies, between two looks."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.commands import mirror
from ottla.cli.output import Item


def partition(records: int) -> Item:
    return {"flow": "east->west", "topic": "t", "partition": 0, "records": records, "bytes": records * 10}


def test_rates_are_of_the_time_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    times, former = iter([100.0, 104.0, 105.0]), dict[Any, Any]()
    monkeypatch.setattr("ottla.cli.commands.mirror.time.monotonic", lambda: next(times))
    rates = [
        (item["records_s"], item["bytes_s"])
        for records in (1000, 3000, 500)  # at last it is another mirror's, which begins anew
        for item in mirror._rates([partition(records)], former)
    ]
    assert rates == [(0, 0), (500, 5000), (0, 0)]
