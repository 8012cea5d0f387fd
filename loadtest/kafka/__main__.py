"""`make bench-kafka`: the tables of docs/benchmarks.md, "Against Apache Kafka".

Ratios are of neighbouring runs; the sides take turns, and who begins changes. Exits with 1 where a row could not be
measured. A goal that is not reached is said in the tables, and in the last line under `missed`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from loadtest.kafka import acl, cores, foreign, logins, rebalance, sdk, secured, start, takeover, traffic, wide
from loadtest.kafka.comparison import Comparison, Figure, Pair
from loadtest.kafka.rows import ROWS, Row
from loadtest.kafka.sides import Side, both_sides, side_of
from ottla_stack.running import RunningStack

KEYS: Final = (
    *(row.key for row in (*ROWS, *secured.ROWS)),
    *(each.figure.key for each in (*start.STARTS, *sdk.CONTESTS)),
    *(row.key for row in cores.ROWS),
    takeover.FIGURE.key,
    acl.FIGURE.key,
    logins.FIGURES[0].key,
    rebalance.FIGURES[0].key,
    wide.KEY,
    foreign.KEY,
)
_WIDE: Final = 240
_WARM_UP_PAIRS: Final = 4
"""After the start: what a JVM runs for the first seconds is not what it compiles that into."""


class Bench:
    """The rows that are wanted, in their order; `skipped` are those that could not be measured."""

    def __init__(self, wanted: Collection[str], pairs: int, records: int, directory: Path) -> None:
        self.against_kafka: Final = Comparison("ottla against Apache Kafka", ("ottla", "Kafka"))
        self.against_clients: Final = Comparison("SDK against Python's Kafka clients", ("SDK", "client"))
        self.foreign: Final = Comparison("ottla's clients with Apache Kafka", ("ottla", "the other"))
        self.two_brokers: Final = Comparison("two brokers against one", ("two brokers", "one broker"))
        self.alone: Final = Comparison("ottla and what it may take", ("ottla", "limit"))
        self.beside: Final = Comparison("a client beside others that log in", ("with them", "without them"))
        self.skipped: Final[list[str]] = []
        self.found: Final[dict[str, float]] = {}
        """Figures of ottla alone that the last line has beside the ratios."""
        self._wanted, self._pairs, self._records = wanted, pairs, records
        self._directory = directory
        self._console = Console(width=_WIDE, highlight=False)

    def run(self) -> None:
        for replicas in (1, 3):
            rows = [row for row in ROWS if row.replicas == replicas]
            sides = both_sides(self._directory / f"replicas-{replicas}", replicas)
            self._traffic(self.against_kafka, rows, sides)
        self._traffic(self.against_kafka, secured.ROWS, secured.both_sides(self._directory / "secured"))
        for each in start.STARTS:
            if each.figure.key in self._wanted:
                self._row(self.against_kafka, (each.figure,), partial(start.measure, each, self._pairs))
        self._sdk()
        self._traffic(self.two_brokers, cores.ROWS, cores.both_sides(self._directory / "cores"))
        if takeover.FIGURE.key in self._wanted:
            self._row(self.alone, (takeover.FIGURE,), takeover.measure)
        if acl.FIGURE.key in self._wanted:
            self._row(self.alone, (acl.FIGURE,), partial(acl.measure, self._pairs))
        if logins.FIGURES[0].key in self._wanted:
            self._row(self.beside, logins.FIGURES, partial(logins.measure, self._directory, self._pairs))
        if rebalance.FIGURES[0].key in self._wanted:
            measured = partial(rebalance.measure, self._directory, self._pairs)
            self._row(self.against_kafka, rebalance.FIGURES, measured)
        if wide.KEY in self._wanted:
            self._wide()
        if foreign.KEY in self._wanted:
            for figure, measure in foreign.MEASURES.items():
                measured = partial(measure, self._directory, self._pairs, self._records)
                self._row(self.foreign, (figure,), measured)

    def tell(self, seconds: float) -> dict[str, object]:
        """The tables, and all figures in a file; what the last line is to say."""
        for each in self._comparisons():
            each.tell(self._console)
        with tempfile.NamedTemporaryFile("w", prefix="ottla-bench-kafka-", suffix=".json", delete=False) as raw:
            json.dump({each.title: each.raw for each in self._comparisons()}, raw, indent=1)
        ratios = {name: ratio for each in self._comparisons() for name, ratio in each.ratios.items()}
        return {
            **ratios,
            **self.found,
            "pairs": self._pairs,
            "missed": [key for each in self._comparisons() for key in each.missed],
            "skipped": self.skipped,
            "seconds": round(seconds),
            "raw": raw.name,
        }

    def _comparisons(self) -> list[Comparison]:
        comparisons = (
            self.against_kafka,
            self.against_clients,
            self.foreign,
            self.two_brokers,
            self.alone,
            self.beside,
        )
        return [each for each in comparisons if each.raw]

    def _traffic(
        self, comparison: Comparison, rows: Sequence[Row], start_both: AbstractContextManager[tuple[Side, Side]]
    ) -> None:
        rows = [row for row in rows if row.key in self._wanted]
        if not rows:
            return
        with self._or_skipped(*(row.key for row in rows)), start_both as sides:
            traffic.measure(rows[0], sides, _WARM_UP_PAIRS, self._records)
            for row in rows:
                measure = partial(traffic.measure, row, sides, self._pairs, self._records)
                self._row(comparison, row.figures, measure)

    def _sdk(self) -> None:
        contests = [each for each in sdk.CONTESTS if each.figure.key in self._wanted]
        if not contests:
            return
        keys = [each.figure.key for each in contests]
        with self._or_skipped(*keys), RunningStack(self._directory / "sdk", brokers=1) as stack:
            side = side_of(stack)
            for each in contests:
                measure = partial(sdk.measure, each, side, self._pairs, self._records)
                self._row(self.against_clients, (each.figure,), measure)

    def _wide(self) -> None:
        with self._or_skipped(wide.KEY):
            flushes, states = wide.measure(self._directory / wide.KEY, self._pairs)
            self._row(self.against_kafka, (wide.FLUSH,), lambda: flushes)
            self._row(self.alone, (wide.STATE,), lambda: states)
            self.found["state_bytes_per_partition"] = round(statistics.median(own["bytes"] for own, _ in states), 1)

    def _row(self, comparison: Comparison, figures: tuple[Figure, ...], measure: Callable[[], list[Pair]]) -> None:
        with self._or_skipped(figures[0].key):
            pairs = measure()
            for figure in figures:
                self._console.print(comparison.add(figure, pairs), markup=False)

    @contextmanager
    def _or_skipped(self, *keys: str) -> Iterator[None]:
        """Where these fail, the others are measured all the same."""
        try:
            yield
        except Exception as error:
            known = {*self.skipped, *(key for each in self._comparisons() for key in each.raw)}
            self.skipped.extend(key for key in keys if key not in known)
            self._console.print(f"{', '.join(keys)}: {error}", style="bold red", markup=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--records", type=int, default=2_000_000, help="of the rows at 100 B; the others take a share")
    parser.add_argument("--only", default="", help=f"some of these, or their first words: {', '.join(KEYS)}")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else KEYS
    found = {name: [key for key in KEYS if key == name or key.startswith(f"{name}_")] for name in names}
    if unknown := [name for name, keys in found.items() if not keys]:
        parser.error(f"no such row: {', '.join(unknown)}")
    wanted = [key for keys in found.values() for key in keys]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and all that it has started is stopped on the way out
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-kafka-"))
    bench, began = Bench(wanted, given.pairs, given.records, directory), time.monotonic()
    try:
        bench.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps(bench.tell(time.monotonic() - began)))
    return 1 if bench.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
