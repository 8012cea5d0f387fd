"""What services counted (`/metrics`), summed over those that count it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Mapping
from typing import Final

_ASK_S: Final = 10.0

COUNTERS: Final[Mapping[str, str]] = {
    "shards_given_up": "ottla_shard_given_up_total",
    "shards_left": "ottla_shard_left_total",
    "shard_loads": "ottla_shard_loads_total",
    "leases_lost": "ottla_leases_lost_total",
    "loop_gaps": "ottla_loop_gaps_total",
}


def count(addresses: Iterable[str]) -> dict[str, int]:
    """By the names of `COUNTERS`. Raises OSError where a service does not answer."""
    totals = dict.fromkeys(COUNTERS, 0)
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_ASK_S) as answer:
            told = parse(answer.read().decode())
        for name, metric in COUNTERS.items():
            totals[name] += int(told.get(metric, 0.0))
    return totals


def parse(text: str) -> dict[str, float]:
    """Parse Prometheus' text format; return the sum of each metric's series."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums
