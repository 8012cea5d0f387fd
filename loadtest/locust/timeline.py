"""What happened in every second of a load test and to every scenario: requests, records, failures and latencies.

A request is a batch: one event for many records, so that counting them costs nothing. The latencies are whole
histograms, from which any percentile of any second can be had. Timelines of several processes add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from ottla.bench.histogram import LatencyHistogram


@dataclass(slots=True)
class Tally:
    """Requests of one second, or of one scenario; the latencies are those of its batches, failed or not."""

    requests: int = 0
    records: int = 0
    failures: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)

    def on_request(self, records: int, latency_us: int | None, failed: bool) -> None:
        """Count one request; None: its latency is of another kind."""
        self.requests += 1
        self.records += records
        self.failures += failed
        if latency_us is not None:
            self.latencies.add(latency_us)

    def merge(self, other: Tally) -> None:
        """Count everything that `other` has counted as well."""
        self.requests += other.requests
        self.records += other.records
        self.failures += other.failures
        self.latencies.merge(other.latencies)

    def row(self) -> dict[str, Any]:
        """Its figures, latencies in milliseconds."""
        return {
            "requests": self.requests,
            "records": self.records,
            "failures": self.failures,
            "p50_ms": round(self.latencies.percentile(50) / 1000, 3),
            "p99_ms": round(self.latencies.percentile(99) / 1000, 3),
            "max_ms": round(self.latencies.max_us / 1000, 3),
        }

    def state(self) -> dict[str, Any]:
        """All of it as plain values, for another process; `from_state` is the way back."""
        counts = {"requests": self.requests, "records": self.records, "failures": self.failures}
        return {**counts, "latencies": self.latencies.state()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `state` gave, as a tally again."""
        return cls(**{**state, "latencies": LatencyHistogram.from_state(state["latencies"])})


class Timeline:
    """`seconds` by the second since the epoch in which a request ended, `scenarios` by name."""

    def __init__(self) -> None:
        self.seconds: dict[int, Tally] = {}
        self.scenarios: dict[str, Tally] = {}

    def on_request(
        self, at: float, scenario: str, records: int, latency_us: int, *, failed: bool, waits: bool = False
    ) -> None:
        """A request of so many records ended at that time, in seconds since the epoch.

        Where it `waits` for others by design its latency says nothing of batches: it counts for its scenario alone.
        """
        self._second(int(at)).on_request(records, None if waits else latency_us, failed)
        self._scenario(scenario).on_request(records, latency_us, failed)

    def take(self) -> dict[str, Any]:
        """Everything so far as plain values, to be added to another process's; it is forgotten here."""
        taken = {
            "seconds": [(second, tally.state()) for second, tally in self.seconds.items()],
            "scenarios": [(name, tally.state()) for name, tally in self.scenarios.items()],
        }
        self.seconds, self.scenarios = {}, {}
        return taken

    def add(self, taken: dict[str, Any]) -> None:
        """Add what `take` gave elsewhere."""
        for second, state in taken["seconds"]:
            self._second(second).merge(Tally.from_state(state))
        for name, state in taken["scenarios"]:
            self._scenario(name).merge(Tally.from_state(state))

    def total(self) -> Tally:
        """All seconds together."""
        total = Tally()
        for tally in self.seconds.values():
            total.merge(tally)
        return total

    def report(self) -> dict[str, Any]:
        """Totals, a row per scenario, and a row per second from the first to the last, `at` seconds after the first."""
        first, last = (min(self.seconds), max(self.seconds)) if self.seconds else (0, -1)
        rows = [{"at": n - first, **self.seconds.get(n, Tally()).row()} for n in range(first, last + 1)]
        return {
            **self.total().row(),
            "seconds": len(rows),
            "scenarios": {name: tally.row() for name, tally in sorted(self.scenarios.items())},
            "rows": rows,
        }

    def _second(self, second: int) -> Tally:
        return self.seconds.setdefault(second, Tally())

    def _scenario(self, name: str) -> Tally:
        return self.scenarios.setdefault(name, Tally())
