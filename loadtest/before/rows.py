"""What is measured of both commits, and what counts as worse."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Program = Literal[
    "sdk_produce", "sdk_consume", "kafka_produce", "kafka_consume", "latency", "commits", "spark_read", "spark_write"
]

MOST_CPU: Final = 1.05
"""Of this commit's CPU seconds a million records to the other's, at the median."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure that a program gives. The ratio is this commit's to the other's."""

    name: str
    program: Program
    field: str
    kind: Literal["rate", "cpu", "latency"]
    """A latency is compared as its rate: the other commit's to this one's, so that more is better."""

    def ratio(self, this: dict[str, Any], before: dict[str, Any]) -> float:
        first, second = float(this[self.field]), float(before[self.field])
        return second / first if self.kind == "latency" else first / second

    def is_worse(self, ratios: Sequence[float]) -> bool:
        """CPU by the median, for it spreads little; rates and latencies only where no pair says otherwise."""
        return statistics.median(ratios) > MOST_CPU if self.kind == "cpu" else max(ratios) < 1


def _traffic(program: Program) -> tuple[Row, Row]:
    return Row(program, program, "records_s", "rate"), Row(f"{program}_cpu", program, "cpu_s_per_million", "cpu")


ROWS: Final = (
    *_traffic("sdk_produce"),
    *_traffic("sdk_consume"),
    *_traffic("kafka_produce"),
    *_traffic("kafka_consume"),
    Row("acks_all_p50", "latency", "p50_ms", "latency"),
    Row("commits_p99", "commits", "p99_ms", "latency"),
    *_traffic("spark_read"),
    *_traffic("spark_write"),
)
PROGRAMS: Final = tuple(dict.fromkeys(row.program for row in ROWS))


def verdict(pairs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]) -> dict[str, Any]:
    """The last line: `{"rows": {name: [median, low, high]}, "worse": [name]}`, from each program's (this, before)."""
    rows: dict[str, list[float]] = {}
    worse: list[str] = []
    for row in ROWS:
        if row.program in pairs:
            ratios = [row.ratio(*pair) for pair in pairs[row.program]]
            rows[row.name] = [round(value, 3) for value in (statistics.median(ratios), min(ratios), max(ratios))]
            if row.is_worse(ratios):
                worse.append(row.name)
    return {"rows": rows, "worse": worse}
