"""The lines that Kafka's performance tools print, number for number, so that their parsers can read ours.

kafka-producer-perf-test, kafka-consumer-perf-test and the end-to-end latency tool (Kafka 4.1). A MB is 2^20 bytes.
Times in the total lines are whole milliseconds, as in Kafka's tools.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from ottla.bench.measurement import Window

_MB: Final = 1 << 20

_EXTENDED: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
CONSUMED_HEADER: Final = (
    f"start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {_EXTENDED}"
)
CONSUMED_WINDOW_HEADER: Final = (
    f"time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {_EXTENDED}"
)


def sent_window(window: Window) -> str:
    """Return the line that the producer's tool prints every 5 seconds."""
    return (
        f"{window.sent} records sent, {window.sent / window.seconds:.1f} records/sec "
        f"({window.sent_bytes / window.seconds / _MB:.2f} MB/sec), "
        f"{window.publish.mean_us / 1000:.1f} ms avg latency, {_whole_ms(window.publish.max_us):.1f} ms max latency."
    )


def sent_total(total: Window) -> str:
    """Return the line that the producer's tool prints at its end."""
    p50, p95, p99, p999 = (_whole_ms(total.publish.percentile(p)) for p in (50, 95, 99, 99.9))
    return (
        f"{total.sent} records sent, {total.sent / total.seconds:f} records/sec "
        f"({total.sent_bytes / total.seconds / _MB:.2f} MB/sec), "
        f"{total.publish.mean_us / 1000:.2f} ms avg latency, {_whole_ms(total.publish.max_us):.2f} ms max latency, "
        f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
    )


def consumed_window(window: Window, so_far: Window, wall: Callable[[float], datetime]) -> str:
    """Return the 5-second line of the consumer's tool with detailed statistics: totals so far, rates of the window."""
    return (
        f"{_time(wall(window.ended_at))}, 0, {so_far.received_bytes / _MB:.4f}, "
        f"{window.received_bytes / _MB / window.seconds:.4f}, {so_far.received}, "
        f"{window.received / window.seconds:.4f}, {_fetch_columns(window)}"
    )


def consumed_total(total: Window, wall: Callable[[float], datetime]) -> str:
    """Return the line that the consumer's tool prints at its end; `wall` turns a monotonic time into the time of
    day."""
    return (
        f"{_time(wall(total.began_at))}, {_time(wall(total.ended_at))}, {total.received_bytes / _MB:.4f}, "
        f"{total.received_bytes / _MB / total.seconds:.4f}, {total.received}, "
        f"{total.received / total.seconds:.4f}, {_fetch_columns(total)}"
    )


def end_to_end_progress(number: int, latency_us: int) -> str:
    """Return the line that the latency tool prints for every thousandth record."""
    return f"{number}\t{latency_us / 1000}"


def end_to_end_total(total: Window) -> list[str]:
    """Return the lines that the latency tool prints at its end."""
    p50, p99, p999 = (_whole_ms(total.end_to_end.percentile(p)) for p in (50, 99, 99.9))
    return [
        f"Avg latency: {total.end_to_end.mean_us / 1000:.4f} ms",
        f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
    ]


def _fetch_columns(window: Window) -> str:
    """Return the fetch columns. Without a group no rebalance occurs, so all of the time counts as fetch time."""
    return (
        f"0, {round(window.seconds * 1000)}, {window.received_bytes / _MB / window.seconds:.4f}, "
        f"{window.received / window.seconds:.4f}"
    )


def _whole_ms(value_us: int) -> int:
    return value_us // 1000


def _time(moment: datetime) -> str:
    """Format the time as yyyy-MM-dd HH:mm:ss:SSS."""
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03d}"
