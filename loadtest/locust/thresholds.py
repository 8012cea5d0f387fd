"""When a load test has failed: too little was done, something went wrong, or it took too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Floors of what was done and a ceiling of the 99th percentile. No failure is ever allowed."""

    min_requests: int = 1
    min_records: int = 1
    max_p99_ms: float = float("inf")
    min_rebalances: int = 0

    def breaches(self, report: dict[str, Any]) -> list[str]:
        """A sentence for each that `report`, of a timeline, with `groups` of a churn, does not keep."""
        found, rebalances = [], report.get("groups", {}).get("rebalances", 0)
        if report["failures"]:
            found.append(f"{report['failures']} of {report['requests']} requests failed")
        if report["requests"] < self.min_requests:
            found.append(f"{report['requests']} requests are fewer than the {self.min_requests} that were expected")
        if report["records"] < self.min_records:
            found.append(f"{report['records']} records are fewer than the {self.min_records} that were expected")
        if report["p99_ms"] > self.max_p99_ms:
            found.append(f"the 99th percentile of {report['p99_ms']:g} ms is above {self.max_p99_ms:g} ms")
        if rebalances < self.min_rebalances:
            found.append(f"{rebalances} rebalances are fewer than the {self.min_rebalances} that were expected")
        return found
