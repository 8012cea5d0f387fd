"""`make bench-before`: when this commit is worse than another."""

from __future__ import annotations

import pytest
from loadtest.before.rows import PROGRAMS, ROWS, Pair, Program, verdict
from loadtest.before.side import Programs


def consumed(*pairs: tuple[float, float], cpu: float = 1.0) -> dict[Program, list[Pair]]:
    """Rates of both, beside a run of each that was disturbed; this commit takes so many times the CPU."""

    def runs(rate: float, cpu: float) -> list[dict[str, float]]:
        return [
            {"records_s": rate / 2, "cpu_s_per_million": cpu + 0.3},
            {"records_s": rate, "cpu_s_per_million": cpu},
        ]

    return {"sdk_consume": [(runs(this, cpu), runs(before, 1.0)) for this, before in pairs]}


def test_a_row_is_median_and_spread_of_the_ratios_of_neighbours() -> None:
    found = verdict(consumed((10, 10), (30, 10), (100, 50)))
    assert found["rows"] == {"sdk_consume": [2.0, 1.0, 3.0], "sdk_consume_cpu": [1.0, 1.0, 1.0]}
    assert found["worse"] == []


def test_a_rate_is_worse_where_no_pair_says_otherwise() -> None:
    assert verdict(consumed((9, 10), (8, 10), (7, 10)))["worse"] == ["sdk_consume"]
    assert verdict(consumed((9, 10), (8, 10), (11, 10)))["worse"] == []


@pytest.mark.parametrize(("cpu", "worse"), [(1.05, []), (1.06, ["sdk_consume_cpu"])])
def test_cpu_is_worse_above_five_percent_at_the_median(cpu: float, worse: list[str]) -> None:
    assert verdict(consumed((1, 1), (1, 1), cpu=cpu))["worse"] == worse


def test_a_latency_is_worse_when_it_is_higher() -> None:
    found = verdict({"latency": [([{"p50_ms": 3.0}], [{"p50_ms": 2.0}]), ([{"p50_ms": 4.0}], [{"p50_ms": 3.0}])]})
    assert found["rows"]["acks_all_p50"] == [0.708, 0.667, 0.75]
    assert found["worse"] == ["acks_all_p50"]


def test_every_program_is_there_to_run() -> None:
    assert all(callable(getattr(Programs, program)) for program in PROGRAMS)
    assert len({row.name for row in ROWS}) == len(ROWS)
