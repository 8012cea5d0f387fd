"""`make bench-spark`: the table of docs/benchmarks.md, "Spark".

Ratios are of neighbouring runs on the same topic; the sides take turns, and who begins changes. Exits with 1 where a
row could not be measured. A goal that is not reached is said in the table, and in the last line under `missed`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from peers.spark.session import jvm_pid, spark
from pyspark.sql import SparkSession
from rich.console import Console

from loadtest.kafka.comparison import ANY, AT_LEAST_AS_MUCH, Comparison, Figure, Goal, Pair
from loadtest.spark import delivery, growth, rates, trickle
from loadtest.spark.processes import WorkerMemory
from loadtest.spark.sides import Side, both_sides
from ottla_stack.running import RunningStack

ROWS: Final = ("read", "write", "delivery", "trickle", "memory", "growth")
_WIDE: Final = 200
_SETTINGS: Final = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}

READ: Final = (Figure("read", "read, one task at a time", AT_LEAST_AS_MUCH), Figure("read_2", "read, two at a time"))
WRITE: Final = (
    Figure("write", "write, one task at a time", AT_LEAST_AS_MUCH),
    Figure("write_2", "write, two at a time"),
)
DELIVERY: Final = Figure("exactly_once", "a stream into a topic, 100,000 rows a batch", Goal(least=0.7))
TRICKLE: Final = (
    Figure("trickle", "median micro-batch, 100 records/s", ANY, "median_ms", "ms", quicker=True),
    Figure("trickle_longest", "… the longest", ANY, "longest_ms", "ms", quicker=True),
)
RATES: Final = frozenset(figure.key for figure in (*READ, *WRITE))
GOALS: Final[dict[str, Goal]] = {
    "read": Goal(least=200_000),
    "write": Goal(least=80_000),
    "trickle": Goal(most=200),
    "trickle_own_ms": Goal(most=40),
    "read_cpu_ratio": Goal(least=0.85),
    "write_cpu_ratio": Goal(least=0.85),
    "workers_mb": Goal(most=350),
    "workers_all_mb": Goal(most=600),
    "coordinator_growth_mb": Goal(most=5),
}
"""For our own figure, or the median of it, besides the goals for ratios."""


class Bench:
    """The rows that are wanted; `skipped` are those that could not be measured."""

    def __init__(self, sides: tuple[Side, Side], wanted: Collection[str], pairs: int, records: int) -> None:
        self.skipped: Final[list[str]] = []
        self._found: Final = Comparison('format("ottla") against Spark\'s Kafka source and sink', ("ottla", "kafka"))
        self.deliveries: Final = Comparison("delivery", ("exactly_once", "at_least_once"))
        self._ours: Final[dict[str, float]] = {}
        self._sides: Final = sides
        self._wanted, self._pairs, self._records = wanted, pairs, records
        self._console: Final = Console(width=_WIDE, highlight=False)

    def run(self, memory_records: int) -> None:
        if "read" in self._wanted:
            rates.fill(self._sides[0], "read", self._records)
        with spark(2, _SETTINGS) as session:
            self._rates(session, READ[1:], WRITE[1:], rates.WARM_UP_PAIRS)
            self._delivery(session)
            self.row("trickle", TRICKLE, lambda: trickle.measure(session, self._sides, self._pairs))
            self._own_share(session)
            self._memory(session, memory_records)
        with spark(1, _SETTINGS) as session:
            self._rates(session, READ[:1], WRITE[:1])

    def growth(self) -> None:
        """Without Spark: what its sink asks of a coordinator."""
        if "growth" not in self._wanted:
            return
        with self._or_skipped("growth"):
            early_mb, late_mb = growth.measure()
            self._ours["coordinator_growth_mb"] = late_mb - early_mb
            rounds = f"{growth.ROUNDS:,} rounds of prepare, commit and forget"
            told = f"from {early_mb:.1f} MB after {growth.WARM_UP:,} of {rounds} to {late_mb:.1f} MB"
            self._console.print(f"txn-coordinator: {told}", markup=False)

    def tell(self) -> dict[str, object]:
        """The table, and all figures in a file; what the last line is to say."""
        for comparison in (self._found, self.deliveries):
            if comparison.raw:
                comparison.tell(self._console)
        raw, deliveries = self._found.raw, self.deliveries.raw
        ours = {key: statistics.median(figure["ottla"]) for key, figure in raw.items()} | self._ours
        ours |= {f"{key}_cpu_ratio": _cpu_ratio(figure) for key, figure in raw.items() if key in RATES}
        if DELIVERY.key in deliveries:
            ours["eos_cost"] = 1 - deliveries[DELIVERY.key]["ratio"]
        with tempfile.NamedTemporaryFile("w", prefix="ottla-bench-spark-", suffix=".json", delete=False) as file:
            json.dump({**raw, **deliveries, **self._ours}, file, indent=1)
        missed = [key for key, goal in GOALS.items() if key in ours and not goal.is_reached(ours[key], ours[key])]
        return {
            **self._found.ratios,
            "pairs": self._pairs,
            **{key: round(value, 3 if value < 10 else None) for key, value in ours.items()},
            **{f"{key}_kafka": round(statistics.median(figure["kafka"])) for key, figure in raw.items()},
            "per_cpu_s": {key: _per_cpu_s(figure["cpu_s_per_million"]) for key, figure in raw.items() if key in RATES},
            "spread": {
                key: [round(min(f["ratios"]), 2), round(max(f["ratios"]), 2)]
                for key, f in {**raw, **deliveries}.items()
            },
            "missed": [*(f"{key}_ratio" for key in self._found.missed), *self.deliveries.missed, *missed],
            "skipped": self.skipped,
            "raw": file.name,
        }

    def row(self, key: str, figures: tuple[Figure, ...], measure: Callable[[], list[Pair]]) -> None:
        """Measure all that, if the row is wanted."""
        if key not in self._wanted:
            return
        with self._or_skipped(figures[0].key):
            pairs = measure()
            for figure in figures:
                self._console.print(self._found.add(figure, pairs), markup=False)

    def _rates(
        self, session: SparkSession, reads: tuple[Figure, ...], writes: tuple[Figure, ...], warm_up: int = 0
    ) -> None:
        """Measure reads and writes; the first `warm_up` pairs don't count."""
        pairs, records = self._pairs + warm_up, self._records
        self.row("read", reads, lambda: rates.measure_reads(session, self._sides, pairs, "read")[warm_up:])
        self.row("write", writes, lambda: rates.measure_writes(session, self._sides, pairs, records // 2)[warm_up:])

    def _delivery(self, session: SparkSession) -> None:
        if "delivery" not in self._wanted:
            return
        with self._or_skipped("delivery"):
            pairs = delivery.measure(session, self._sides[0], self._pairs)
            self._console.print(f"exactly and at least once: {self.deliveries.add(DELIVERY, pairs)}", markup=False)

    def _own_share(self, session: SparkSession) -> None:
        """Measure our own share of a trickle's micro-batch."""
        if "trickle" not in self._wanted:
            return
        with self._or_skipped("trickle_own_ms"), tempfile.TemporaryDirectory() as directory:
            self._ours["trickle_own_ms"], calls = trickle.own_share(session, self._sides[0], Path(directory))
            told = ", ".join(f"{call} {taken:.1f}" for call, taken in sorted(calls.items()))
            self._console.print(
                f"ours: {self._ours['trickle_own_ms']:.0f} ms a micro-batch; medians: {told}", markup=False
            )

    def _memory(self, session: SparkSession, records: int) -> None:
        """Measure only our source, because Spark's own source has no Python workers."""
        if "memory" not in self._wanted:
            return
        with self._or_skipped("memory"):
            ours = self._sides[0]
            rates.fill(ours, "memory", records)
            with WorkerMemory(jvm_pid(session)) as memory:
                if (read := ours.read(session, "memory").count()) != records:
                    raise ValueError(f"{read} records were read of {records}")
            self._ours["workers_mb"] = memory.workers_mb
            self._ours["workers_all_mb"] = memory.all_mb
            self._ours["workers_largest_mb"] = memory.largest_mb
            told = f"{memory.workers_mb:.0f} MB, the largest {memory.largest_mb:.0f} MB"
            planners = f"with the processes that plan {memory.all_mb:.0f} MB"
            self._console.print(f"Python workers through {records:,} rows: {told}; {planners}", markup=False)

    @contextmanager
    def _or_skipped(self, key: str) -> Iterator[None]:
        """Where this fails, the others are measured all the same."""
        try:
            yield
        except Exception as error:
            self.skipped.append(key)
            self._console.print(f"{key}: {error}", style="bold red", markup=False)


def _per_cpu_s(cpu_s_per_million: Sequence[float]) -> list[int]:
    """Records that a second of CPU is enough for, at the one side and at the other."""
    return [round(1e6 / each) for each in cpu_s_per_million]


def _cpu_ratio(figure: dict[str, Any]) -> float:
    """Our rows a second of Spark's CPU to those of its own."""
    ours, its = figure["cpu_s_per_million"]
    return float(its / ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--records", type=int, default=2_000_000, help="that are read; half of them are written")
    parser.add_argument("--memory-records", type=int, default=20_000_000)
    parser.add_argument("--only", default="", help=f"some of these, with commas: {', '.join(ROWS)}")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else ROWS
    if unknown := [key for key in wanted if key not in ROWS]:
        parser.error(f"no such row: {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and all that it has started is stopped on the way out
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-spark-"))
    try:
        with RunningStack(directory / "ottla", brokers=1, txn_coordinators=1) as stack:
            bench = Bench(both_sides(stack), wanted, given.pairs, given.records)
            bench.run(given.memory_records)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    bench.growth()
    last: dict[str, Any] = bench.tell()
    print(json.dumps(last))
    return 1 if bench.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
