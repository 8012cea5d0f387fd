"""When a load test has failed, and the one line that it ends with."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from loadtest.locust import soak
from loadtest.locust.outcome import last_line
from loadtest.locust.rates import parse_rates, rates_text, reached
from loadtest.locust.slope import growing, settled, slope_mb_per_min
from loadtest.locust.thresholds import Thresholds

ROOT = Path(__file__).resolve().parents[3]
REPORT: dict[str, Any] = {
    "requests": 100, "failures": 0, "records": 50_000, "p50_ms": 3.5, "p99_ms": 40.25, "max_ms": 99.0, "seconds": 10,
    "scenarios": {"Small": {"records": 40_000}, "Replay": {"records": 10_000}}, "rows": [],
}  # fmt: skip


def test_what_keeps_every_threshold_is_no_failure() -> None:
    assert Thresholds(100, 50_000, 40.25).breaches(REPORT) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"failures": 1}, "1 of 100 requests failed"),
        ({"requests": 99}, "99 requests are fewer than the 100 that were expected"),
        ({"records": 49_999}, "49999 records are fewer than the 50000 that were expected"),
        ({"p99_ms": 40.3}, "the 99th percentile of 40.3 ms is above 40.25 ms"),
    ],
)
def test_each_threshold_has_its_sentence(change: dict[str, Any], words: str) -> None:
    assert Thresholds(100, 50_000, 40.25).breaches({**REPORT, **change}) == [words]


def test_groups_that_do_not_rebalance_are_no_churn() -> None:
    churned = {**REPORT, "groups": {"rebalances": 19}}
    assert Thresholds(min_rebalances=19).breaches(churned) == []
    assert Thresholds(min_rebalances=20).breaches(churned) == ["19 rebalances are fewer than the 20 that were expected"]
    assert len(Thresholds(min_rebalances=1).breaches(REPORT)) == 1


def test_doing_nothing_is_never_a_success() -> None:
    assert len(Thresholds().breaches({**REPORT, "requests": 0, "records": 0})) == 2


def test_the_last_line_is_exactly_that() -> None:
    line = last_line(REPORT, 0.37)
    assert list(json.loads(line)) == ["requests", "failures", "records", "p50_ms", "p99_ms", "rss_slope_mb_per_min"]
    assert line == (
        '{"requests": 100, "failures": 0, "records": 50000, "p50_ms": 3.5, "p99_ms": 40.25, '
        '"rss_slope_mb_per_min": 0.37}'
    )


def test_the_last_line_tells_of_groups_where_there_were_some() -> None:
    groups = {"rebalances": 49, "joins_per_s": 0.8, "rebalance_p50_ms": 250.0, "rebalance_p99_ms": 6_000.0}
    assert json.loads(last_line({**REPORT, "groups": groups}, 0.37)).items() > groups.items()


def test_a_slope_is_a_straight_line_through_what_is_left_after_settling_in() -> None:
    samples = [(float(at), 80.0 if at < 120 else 60 + at / 60 * 0.5) for at in range(601)]
    assert len(settled(samples)) == 481, "8 of 10 minutes"
    assert slope_mb_per_min(settled(samples)) == pytest.approx(0.5)
    assert slope_mb_per_min([(0.0, 50.0), (60.0, 50.0)]) == 0
    assert slope_mb_per_min([]) == slope_mb_per_min([(5.0, 50.0)]) == 0
    assert settled([]) == []


def test_growth_counts_from_ten_minutes_on() -> None:
    slopes = {"etcd": 0.4, "broker-0": 1.25}
    assert growing(slopes, 10) == ["broker-0 grows by 1.25 MB a minute, above 1"]
    assert growing(slopes, 2) == []


def test_rates_there_and_back_and_half_of_what_was_reached() -> None:
    half = reached(REPORT, 0.5)
    assert half == {"Small": 2_000.0, "Replay": 500.0}
    assert parse_rates(rates_text(half)) == half
    assert parse_rates("") == {}
    with pytest.raises(ValueError, match="fast"):
        parse_rates("Small=fast")


def test_a_soak_has_every_scenario_and_what_makes_its_memory_a_failure() -> None:
    """Locust hands users out by weight: one of each, and three that churn. Mirrored takes two sites."""
    declared = {
        node.name
        for node in ast.parse((ROOT / "loadtest/locust/users.py").read_text()).body
        if isinstance(node, ast.ClassDef) and not any("abstract = True" in ast.unparse(line) for line in node.body)
    }
    assert declared == {*soak.AT_HALF, "GroupChurn", "Mirrored"}
    plan = soak.plan_for(dict.fromkeys(soak.AT_HALF, 100.0), minutes=10)
    assert (plan.users, plan.scenarios, plan.seconds) == (11, (), 600)
    assert (plan.thresholds.min_records, plan.thresholds.min_rebalances) == (432_000, 50)
    assert growing({"broker-0": 1.01, "etcd": 0.2}, 10) == ["broker-0 grows by 1.01 MB a minute, above 1"]
