"""What a load test counts: batches and records, by second and scenario, in one process or in several."""

from __future__ import annotations

import json

from loadtest.locust.timeline import Timeline


def filled() -> Timeline:
    timeline = Timeline()
    timeline.on_request(1000.9, "Small", 500, 1_500, failed=False)
    timeline.on_request(1001.1, "Small", 500, 2_000, failed=False)
    timeline.on_request(1003.0, "Replay", 0, 30_000_000, failed=True)
    return timeline


def test_totals_scenarios_and_a_row_for_every_second() -> None:
    report = filled().report()
    assert (report["requests"], report["failures"], report["records"], report["seconds"]) == (3, 1, 1000, 4)
    assert (report["p50_ms"], report["p99_ms"], report["max_ms"]) == (2.0, 30_000.0, 30_000.0)
    assert report["scenarios"]["Small"] == {
        "requests": 2, "records": 1000, "failures": 0, "p50_ms": 1.5, "p99_ms": 2.0, "max_ms": 2.0
    }  # fmt: skip
    assert [(row["at"], row["requests"]) for row in report["rows"]] == [(0, 1), (1, 1), (2, 0), (3, 1)]


def test_processes_add_up_whatever_they_have_sent_before() -> None:
    master, worker = filled(), filled()
    master.add(json.loads(json.dumps(worker.take())))
    assert worker.report()["requests"] == 0, "what was handed over is not handed over twice"
    worker.on_request(1004.0, "Small", 500, 1_000, failed=False)
    master.add(json.loads(json.dumps(worker.take())))
    report = master.report()
    assert (report["requests"], report["failures"], report["records"]) == (7, 2, 2500)
    assert [row["requests"] for row in report["rows"]] == [2, 2, 0, 2, 1]


def test_who_waits_for_others_has_latencies_of_its_own() -> None:
    timeline = filled()
    timeline.on_request(1001.5, "Members", 100, 90_000_000, failed=False, waits=True)
    report = timeline.report()
    assert (report["requests"], report["records"], report["max_ms"]) == (4, 1100, 30_000.0)
    assert report["rows"][1]["max_ms"] == 2.0
    assert report["scenarios"]["Members"]["p99_ms"] == 90_000.0


def test_nothing_happened_is_a_report_too() -> None:
    report = Timeline().report()
    assert (report["requests"], report["seconds"], report["rows"], report["p99_ms"]) == (0, 0, [], 0.0)
