"""`make bench-mirror`: ottla's mirror, a consume-and-produce loop and MirrorMaker 2 between the same two clusters.

They take turns with a topic that is there, each as a process that has just been started; a rate is that of the last two
thirds of the records, so that none is measured while it begins. Then how late records are at half of what the mirror
keeps up with, how soon a new topic is found, how each way of delivery gets on with batches of one record, and for how
long a partition stands still while mirrors are killed. Exit code 1 where a goal is missed or a row was left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from loadtest.goals import Figures, Goal, conclude, rows_of, say
from loadtest.mirror import copiers
from loadtest.mirror.copying import Runs, copying, rates
from loadtest.mirror.kills import SESSION_S, kills
from loadtest.mirror.sites import Sites, both_sites, records_in
from loadtest.programs import run
from ottla_mirror.machines.flows import DELIVERIES
from ottla_stack.running import wait_for

GOALS: Final[Mapping[str, Goal]] = {
    "bytes_vs_loop": Goal(least=1.5),
    "vs_mm2": Goal(least=2.0),
    "rss_vs_mm2": Goal(most=0.2),
    "lag_p99_ms": Goal(most=1000),
    "discovery_s": Goal(most=5.0),
    "small_batches_s": Goal(least=990),
    "small_lag_p99_ms": Goal(most=1000),
    "catch_up_batches_s": Goal(least=3000),
    "longest_stall_s": Goal(most=SESSION_S + 5),
}
_LAG_S: Final = 20.0
_SMALL_RATE: Final = 1000.0
_BACKLOG: Final = ("--rate", "5000", "--seconds", "12", "--alone")


def lag(sites: Sites, folder: Path, pairs: int, records: int) -> Figures:
    """A producer as fast as it can be shows what the mirror keeps up with; then one at half of that."""
    folder.joinpath("lag").mkdir()
    with copiers.mirror(sites, "lag.*", "lag", folder / "lag"):
        rate, found = keeps_up_with(sites, records), []
        for number in range(pairs):
            found.append(arrivals(sites, f"lag-{number}", f"lag.lag-{number}", rate / 2))
            say("lag", **found[-1])
    return {
        "lag_p99_ms": [each["p99_ms"] for each in found],
        "lag_p50_ms": [each["p50_ms"] for each in found],
        "lag_records_s": [rate / 2],
    }


def keeps_up_with(sites: Sites, records: int) -> float:
    """Records a second from a producer's first one to the last one's copy."""
    began_at = time.monotonic()
    total = sites.fill("lag-full", records)
    wait_for(lambda: has(sites, "lag.lag-full", total), "all to be copied")
    rate = total / (time.monotonic() - began_at)
    say("keeps up with", records_s=rate)
    return rate


def arrivals(sites: Sites, topic: str, copy: str, rate: float, *more: str) -> dict[str, Any]:
    """By a topic that is being copied already: what the first records wait for is in `discovery`."""
    first = sites.fill(topic, 1)
    wait_for(lambda: has(sites, copy, first), "the mirror to begin")
    paced = ("--rate", str(rate), "--seconds", str(_LAG_S), *more)
    with ThreadPoolExecutor() as pool:
        records = str(round(rate * _LAG_S) + first)
        reading = pool.submit(run, "mirror.arrivals", sites.west, "--topic", copy, "--records", records)
        written = run("mirror.paced", sites.east, "--topic", topic, *paced)
        found = reading.result()
    assert found["records"] >= written["records"], f"{found} of {written}"
    return {**found, "records_s": written["records_s"]}


def discovery(sites: Sites, folder: Path, pairs: int, records: int) -> Figures:
    """From a topic's creation, with a record in it, to that record's copy."""
    folder.joinpath("found").mkdir()
    found = []
    with copiers.mirror(sites, "new.*", "found", folder / "found"):
        sites.fill("new", 1)
        wait_for(lambda: has(sites, "found.new", 1), "the mirror to begin")
        for number in range(pairs):
            topic, began_at = f"new-{number}", time.monotonic()
            sites.fill(topic, 1)
            wait_for(lambda name=f"found.{topic}": has(sites, name, 1), "the copy")  # type: ignore[misc]  # a lambda with a default
            found.append(time.monotonic() - began_at)
            say("discovery", seconds=found[-1])
    return {"discovery_s": found}


def small(sites: Sites, folder: Path, pairs: int, records: int) -> Figures:
    """Batches of one record, in all three ways of delivery: how late they come, then how fast a backlog goes through.

    Each figure is that of the way that does worst; those of each way are beside it.
    """
    found = Runs({way: [] for way in DELIVERIES})
    for number in range(pairs):
        for way in DELIVERIES:
            found[way].append(small_once(sites, folder / f"{way}-{number}", f"{way.replace('_', '-')}{number}", way))
            say(way, **found[way][-1])
    fields = {"small_batches_s": min, "small_lag_p99_ms": max, "catch_up_batches_s": min}
    worst = {
        field: [of(runs[field] for runs in each) for each in zip(*found.values(), strict=True)]
        for field, of in fields.items()
    }
    return worst | {f"{way}_{field}": [run[field] for run in runs] for way, runs in found.items() for field in fields}


def small_once(sites: Sites, folder: Path, name: str, way: str) -> dict[str, float]:
    folder.mkdir()
    live, backlog = f"live-{name}", f"backlog-{name}"
    with copiers.mirror(sites, live, name, folder, way):
        came = arrivals(sites, live, f"{name}.{live}", _SMALL_RATE, "--alone")
    sites.fill(backlog, 1)
    run("mirror.paced", sites.east, "--topic", backlog, *_BACKLOG)
    folder.joinpath("backlog").mkdir()
    with copiers.mirror(sites, backlog, f"{name}b", folder / "backlog", way) as copier:
        total = records_in(sites.source, backlog)
        caught_up = rates(sites.follow(copier.copy, total, copier.pid), total)
    return {
        "small_batches_s": came["records_s"],
        "small_lag_p99_ms": came["p99_ms"],
        "catch_up_batches_s": caught_up["records_s"],
    }


def has(sites: Sites, copy: str, records: int) -> bool:
    return sites.target.topics.exists(copy) and records_in(sites.target, copy) >= records


ROWS: Final[Mapping[str, Callable[[Sites, Path, int, int], Figures]]] = {
    "copy": copying,
    "lag": lag,
    "discovery": discovery,
    "small": small,
    "kills": kills,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help=f"of {', '.join(ROWS)}; all, where none is named")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--records", type=int, default=4_000_000)
    given = parser.parse_args()
    names = rows_of(parser, given.rows, ROWS)
    figures: Figures = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"ottla-bench-{name}-") as folder, both_sites(Path(folder)) as sites:
            figures |= ROWS[name](sites, Path(folder), given.pairs, given.records)
    return conclude(figures, GOALS, given.pairs)


if __name__ == "__main__":
    sys.exit(main())
