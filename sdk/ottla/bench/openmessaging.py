"""Writes a measurement in the result format of the OpenMessaging Benchmark, for the tools that read this format.

The fields are those of its TestResult: one array entry per window of 10 s, latencies in milliseconds, publish delays in
microseconds, percentiles as keys of the quantiles. A value that a run does not measure is 0, as in the original.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.bench.histogram import LatencyHistogram
from ottla.bench.measurement import Measurement, Window

WINDOW_S: Final = 10.0

_PERCENTS: Final = {
    "50pct": 50,
    "75pct": 75,
    "95pct": 95,
    "99pct": 99,
    "999pct": 99.9,
    "9999pct": 99.99,
    "99999pct": 99.999,
}
_QUANTILES: Final = (0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 95, 97.5, 99, 99.5, 99.9, 99.99, 99.999, 100)

_MS: Final = 1000.0
_US: Final = 1.0
_KINDS: Final[dict[str, tuple[Callable[[Window], LatencyHistogram], float]]] = {
    "publishLatency": (lambda window: window.publish, _MS),
    "publishDelayLatency": (lambda window: window.delay, _US),
    "endToEndLatency": (lambda window: window.end_to_end, _MS),
}
"""For each latency: its name in the format, its histogram in a window, and the microseconds in its unit."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A benchmark's workload: `name` is the benchmark, and `size_bytes` is the size of a value."""

    name: str
    size_bytes: int
    partitions: int
    producers: int
    consumers: int


def result(workload: Workload, measured: Measurement) -> dict[str, Any]:
    """Return the fields of a TestResult as plain values, ready for JSON."""
    windows = measured.windows
    found: dict[str, Any] = {
        "workload": workload.name,
        "driver": "ottla",
        "messageSize": workload.size_bytes,
        "topics": 1,
        "partitions": workload.partitions,
        "producersPerTopic": workload.producers,
        "consumersPerTopic": workload.consumers,
        "publishRate": [_round(w.sent / w.seconds) for w in windows],
        "publishErrorRate": [_round(w.failed / w.seconds) for w in windows],
        "consumeRate": [_round(w.received / w.seconds) for w in windows],
        "backlog": [w.backlog for w in windows],
    }
    for kind, (histogram_of, unit) in _KINDS.items():
        summaries = [_summary(histogram_of(w), unit) for w in windows]
        total = histogram_of(measured.total)
        for name, value in _summary(total, unit).items():
            found[kind + name] = [summary[name] for summary in summaries]
            found[f"aggregated{kind[0].upper()}{kind[1:]}{name}"] = value
        quantiles = {f"{float(q)}": _round(total.percentile(q) / unit) for q in _QUANTILES}
        found[f"aggregated{kind[0].upper()}{kind[1:]}Quantiles"] = quantiles
    return found


def _summary(histogram: LatencyHistogram, unit: float) -> dict[str, float]:
    percentiles = {name: _round(histogram.percentile(percent) / unit) for name, percent in _PERCENTS.items()}
    return {"Avg": _round(histogram.mean_us / unit), **percentiles, "Max": _round(histogram.max_us / unit)}


def _round(value: float) -> float:
    return round(value, 3)
