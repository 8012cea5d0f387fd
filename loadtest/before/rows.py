"""What is measured of both commits, and what counts as worse."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Program = Literal[
    "sdk_produce",
    "sdk_consume",
    "sdk_batches",
    "first_produce",
    "kafka_produce",
    "kafka_consume",
    "latency",
    "commits",
    "transactions",
    "spark_read",
    "spark_write",
]

Run = Mapping[str, Any]
Pair = tuple[Sequence[Run], Sequence[Run]]
"""The runs of this commit, and those of the other in between."""

ROUNDS: Final = 3
"""Runs of either commit that are one side of a pair. The best of them counts: whoever else uses the machine only adds,
and by a quarter on a shared one, where one commit measured against itself was 6 % better or worse than itself."""

_RECORDS: Final = 500_000
_MANY_RECORDS: Final = 2_000_000
"""For programs that take so little CPU that the kernel's clock, of ten milliseconds, would tell no difference."""

MOST_CPU: Final = 1.05
"""The maximum of the median ratio of CPU seconds, this commit's to the other's."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure that a program gives. The ratio is this commit's to the other's."""

    name: str
    program: Program
    field: str
    kind: Literal["rate", "cpu", "latency"]
    """A latency is compared as its rate: the other commit's to this one's, so that more is better."""

    def best(self, runs: Sequence[Run]) -> float:
        values = [float(run[self.field]) for run in runs]
        return max(values) if self.kind == "rate" else min(values)

    def ratio(self, pair: Pair) -> float:
        this, before = map(self.best, pair)
        return before / this if self.kind == "latency" else this / before

    def is_worse(self, ratios: Sequence[float]) -> bool:
        """CPU by the median; rates and latencies only where no pair says otherwise."""
        return statistics.median(ratios) > MOST_CPU if self.kind == "cpu" else max(ratios) < 1


def _traffic(program: Program) -> tuple[Row, Row]:
    return Row(program, program, "records_s", "rate"), Row(f"{program}_cpu", program, "cpu_s_per_million", "cpu")


ROWS: Final = (
    *_traffic("sdk_produce"),
    *_traffic("sdk_consume"),
    *_traffic("sdk_batches"),
    Row("first_produce_cpu", "first_produce", "client_cpu_s", "cpu"),
    *_traffic("kafka_produce"),
    *_traffic("kafka_consume"),
    Row("acks_all_p50", "latency", "p50_ms", "latency"),
    Row("commits_p99", "commits", "p99_ms", "latency"),
    Row("transactions", "transactions", "transactions_s", "rate"),
    Row("transactions_cpu", "transactions", "cpu_s_per_million", "cpu"),
    *_traffic("spark_read"),
    *_traffic("spark_write"),
)
PROGRAMS: Final = tuple(dict.fromkeys(row.program for row in ROWS))


def records_of(program: Program) -> int:
    return _MANY_RECORDS if program in ("sdk_batches", "kafka_produce", "kafka_consume") else _RECORDS


def verdict(pairs: Mapping[Program, Sequence[Pair]]) -> dict[str, Any]:
    """The last line: `{"rows": {name: [median, low, high]}, "worse": [name]}`."""
    rows: dict[str, list[float]] = {}
    worse: list[str] = []
    for row in ROWS:
        if row.program in pairs:
            ratios = [row.ratio(pair) for pair in pairs[row.program]]
            rows[row.name] = [round(value, 3) for value in (statistics.median(ratios), min(ratios), max(ratios))]
            if row.is_worse(ratios):
                worse.append(row.name)
    return {"rows": rows, "worse": worse}
