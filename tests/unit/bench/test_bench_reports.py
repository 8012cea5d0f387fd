"""The lines of Kafka's tools, letter for letter, and the fields of the OpenMessaging Benchmark's results."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from ottla.bench import kafka_lines
from ottla.bench.measurement import Measurement, Window
from ottla.bench.openmessaging import Workload, result


def sent(seconds: float, latencies_us: list[int], records: int, size_bytes: int) -> Window:
    window = Window(1_000.0)
    window.ended_at = 1_000.0 + seconds
    window.sent, window.sent_bytes = records, records * size_bytes
    window.publish.add_all(latencies_us)
    return window


def wall(monotonic_at: float) -> datetime:
    return datetime.fromtimestamp(1_793_527_200 + monotonic_at - 1_000, UTC)


def test_a_window_of_the_producer() -> None:
    window = sent(5.0, [1_234, 45_678], 71_429, 100)
    assert kafka_lines.sent_window(window) == (
        "71429 records sent, 14285.8 records/sec (1.36 MB/sec), 23.5 ms avg latency, 45.0 ms max latency."
    )


def test_the_total_of_the_producer() -> None:
    total = sent(7.0, [n * 1000 + 100 for n in range(1000)], 100_000, 100)
    assert kafka_lines.sent_total(total) == (
        "100000 records sent, 14285.714286 records/sec (1.36 MB/sec), 499.60 ms avg latency, 999.00 ms max latency, "
        "499 ms 50th, 949 ms 95th, 989 ms 99th, 998 ms 99.9th."
    )


def test_the_lines_of_the_consumer() -> None:
    window, so_far = Window(1_002.0), Window(1_000.0)
    window.ended_at = so_far.ended_at = 1_004.5
    window.received, window.received_bytes = 25_000, 25 << 20
    so_far.received, so_far.received_bytes = 45_000, 45 << 20
    assert kafka_lines.consumed_window(window, so_far, wall) == (
        "2026-11-01 10:00:04:500, 0, 45.0000, 10.0000, 45000, 10000.0000, 0, 2500, 10.0000, 10000.0000"
    )
    assert kafka_lines.consumed_total(so_far, wall) == (
        "2026-11-01 10:00:00:000, 2026-11-01 10:00:04:500, 45.0000, 10.0000, 45000, 10000.0000, "
        "0, 4500, 10.0000, 10000.0000"
    )
    for header, line in (
        (kafka_lines.CONSUMED_WINDOW_HEADER, kafka_lines.consumed_window(window, so_far, wall)),
        (kafka_lines.CONSUMED_HEADER, kafka_lines.consumed_total(so_far, wall)),
    ):
        assert header.count(", ") == line.count(", ") == 9


def test_the_lines_of_the_latency_tool() -> None:
    total = Window(0.0)
    total.end_to_end.add_all([n * 1000 + 500 for n in range(1000)])
    assert kafka_lines.end_to_end_progress(2000, 1_718) == "2000\t1.718"
    assert kafka_lines.end_to_end_total(total) == [
        "Avg latency: 500.0000 ms",
        "Percentiles: 50th = 499, 99th = 989, 99.9th = 998",
    ]


def test_a_result_has_an_entry_a_window_and_the_names_of_the_benchmark() -> None:
    measured = Measurement(0.0, 10.0)
    measured.window.sent, measured.window.failed = 1_000, 10
    measured.window.publish.add_all([1_000, 3_000])
    measured.window.delay.add(250)
    measured.roll(10.0)
    measured.window.received, measured.window.backlog = 500, 20
    measured.window.end_to_end.add(7_500)
    measured.finish(20.0)
    found = json.loads(json.dumps(result(Workload("e2e orders", 100, 6, 1, 1), measured)))
    assert (found["workload"], found["driver"], found["messageSize"], found["topics"]) == (
        "e2e orders",
        "ottla",
        100,
        1,
    )
    assert (found["partitions"], found["producersPerTopic"], found["consumersPerTopic"]) == (6, 1, 1)
    assert (found["publishRate"], found["publishErrorRate"]) == ([100.0, 0.0], [1.0, 0.0])
    assert (found["consumeRate"], found["backlog"]) == ([0.0, 50.0], [0, 20])
    assert (found["publishLatencyAvg"], found["publishLatencyMax"]) == ([2.0, 0.0], [3.0, 0.0])
    assert found["publishDelayLatency99pct"] == [250.0, 0.0], "microseconds, as there"
    assert found["endToEndLatency9999pct"] == [0.0, 7.5]
    assert (found["aggregatedPublishLatency50pct"], found["aggregatedEndToEndLatencyAvg"]) == (1.0, 7.5)
    assert found["aggregatedPublishLatencyQuantiles"]["99.9"] == 3.0
    kinds = ("publishLatency", "publishDelayLatency", "endToEndLatency")
    points = ("Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "99999pct", "Max")
    assert {kind + point for kind in kinds for point in points} <= set(found)
    assert all(len(value) == 2 for value in found.values() if isinstance(value, list))
