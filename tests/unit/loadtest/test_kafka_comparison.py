"""`make bench-kafka`: how pairs of runs become ratios and verdicts, and that its rows are those that were promised."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from loadtest.kafka.__main__ import KEYS, Bench
from loadtest.kafka.comparison import ANY, Comparison, Figure, Goal
from loadtest.kafka.perf_test import totals
from loadtest.kafka.rows import ROWS
from rich.console import Console


def comparison() -> Comparison:
    return Comparison("ours against theirs", ("ours", "theirs"))


def runs(*values: tuple[float, float]) -> list[tuple[dict[str, float], dict[str, float]]]:
    return [({"records_s": ours}, {"records_s": theirs}) for ours, theirs in values]


def test_the_ratio_is_the_median_of_the_pairs_not_the_ratio_of_the_medians() -> None:
    found = comparison()
    found.add(Figure("produce", "produce"), runs((10, 10), (30, 10), (100, 50)))
    assert found.ratios == {"produce_ratio": 2.0}
    assert found.raw["produce"]["ratios"] == [1.0, 3.0, 2.0]
    assert found.raw["produce"]["ours"] == [10, 30, 100]


def test_a_start_is_compared_the_other_way_round() -> None:
    found = comparison()
    found.add(Figure("start", "start", Goal(least=3), quicker=True), runs((1.0, 4.0)))
    assert found.ratios == {"start_ratio": 4.0}
    assert found.missed == []


@pytest.mark.parametrize(
    ("goal", "ratio", "missed"),
    [
        (Goal(least=1.0), 1.0, False),
        (Goal(least=1.0), 0.99, True),
        (Goal(most=1.5), 1.5, False),
        (Goal(most=1.5), 1.51, True),
        (ANY, 0.01, False),
        (Goal(least=1.0, own=Goal(least=2.0)), 2.0, False),
        (Goal(least=1.0, own=Goal(least=2.0)), 1.99, True),
        (Goal(least=3.0, own=Goal(least=1.0)), 2.0, True),
    ],
)
def test_a_goal_that_is_not_reached_is_said(goal: Goal, ratio: float, missed: bool) -> None:
    found = comparison()
    found.add(Figure("each", "each", goal), runs((ratio, 1.0)))
    said = StringIO()
    found.tell(Console(width=200, file=said))
    assert found.missed == (["each"] if missed else [])
    assert ("NO" in said.getvalue().split()) is missed


def test_processor_time_is_that_of_a_million_records() -> None:
    found = comparison()
    pair = ({"records_s": 1, "cpu_s": 0.5, "records": 2_000_000}, {"records_s": 1})
    found.add(Figure("produce", "produce"), [pair])
    assert found.raw["produce"]["cpu_s_per_million"] == [0.25, None]


def test_every_row_has_a_name_of_its_own_and_those_of_the_goals_are_there() -> None:
    names = [figure.key for row in ROWS for figure in row.figures]
    assert len({*names, *KEYS}) == len(names) + len(KEYS) - len(ROWS)
    goals = {figure.key: str(figure.goal) for row in ROWS for figure in row.figures if figure.goal != ANY}
    assert goals == {
        "produce_100b": "≥ 1",
        "produce_recompressed": "≥ 0.8",
        "consume_100b": "≥ 1",
        "acks_all": "≥ 0.7",
        "p99": "≤ 1.5",
        "memory": "≤ 0.333",
        "txn_transform": "itself ≥ 100,000",
        "txn_produce": "≥ 1",
        "txn_commit": "≤ 1, itself ≤ 50",
        "txn_many": "≥ 1",
        "txn_many_1": "≥ 1, itself ≥ 200",
    }


def test_what_fails_is_skipped_by_name_and_the_rest_goes_on(tmp_path: Path) -> None:
    bench = Bench(["a", "b"], 1, 1, tmp_path)

    def broken() -> list[object]:
        raise OSError("no disk")

    bench._row(bench.against_kafka, (Figure("a", "a"),), broken)  # type: ignore[arg-type]  # it fails before that
    bench._row(bench.against_kafka, (Figure("b", "b"),), lambda: runs((2, 1)))
    assert bench.skipped == ["a"]
    assert bench.against_kafka.ratios == {"b_ratio": 2.0}


def test_the_perf_tests_last_line_counts() -> None:
    said = (
        "4004 records sent, 800.5 records/sec (0.08 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.\n"
        "9000 records sent, 901.125 records/sec (0.09 MB/sec), 1.0 ms avg latency, 2.0 ms max latency, 1 ms 50th.\n"
    )
    assert totals(said) == {"records_s": 901.125, "records": 9000}
    with pytest.raises(ValueError, match="no figures"):
        totals("nothing")
