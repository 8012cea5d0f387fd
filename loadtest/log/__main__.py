"""`make bench-log`: what compaction, checks, restarts, lookups and tables cost, on logs that are large.

The last line is one JSON object. Exit code 1 where a figure misses its goal, or a row is left out (ROWS=clean): then
the line names it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from loadtest.goals import Figures, Goal, conclude, rows_of, say
from loadtest.log.cleaning import KafkaCleaner, clean, make_log
from loadtest.log.meanwhile import produce_p99
from loadtest.log.offline import RECORD_BYTES
from loadtest.log.room import room
from loadtest.log.table import table
from loadtest.log.takeover import takeover
from loadtest.log.ten_gigabytes import TenGigabytes
from ottla_broker.compaction.offset_map import SLOT_BYTES
from ottla_core.records.compression import Codec

_LOG_BYTES: Final = 200 << 20
_RUNS: Final = 3
_LOOKUPS: Final = 200
_FEW_KEYS: Final = 5_000
"""The number of keys in a log with more keys than fit in a small map."""


GOALS: Final[Mapping[str, Goal]] = {
    "clean_mb_s_a_core": Goal(least=100),
    "clean_zstd_mb_s_a_core": Goal(least=30),
    "clean_vs_kafka": Goal(least=0.5),
    "map_share_of_budget": Goal(most=1.0),
    "peak_vs_largest_group": Goal(most=1.05),
    "produce_p99_meanwhile": Goal(most=2.0),
    "takeover_10m_commits_s": Goal(most=3.0),
    "restart_killed_10gb_s": Goal(most=10.0),
    "verify_mb_s_a_core": Goal(least=300),
    "lookup_10gb_ms": Goal(most=20.0),
    "table_load_s": Goal(most=4.0),
    "table_get_us": Goal(most=1.0),
    "table_bytes_a_key": Goal(most=300),
}


def cleaning(directory: Path, pairs: int) -> Figures:
    """In turn with Kafka's cleaner, which had one log before."""
    job = make_log(directory / "plain", _LOG_BYTES, Codec.NONE)
    mb = job.end_offset * RECORD_BYTES / 1e6
    kafka, ours, theirs = KafkaCleaner(directory / "kafka", job, pairs + 1), [], []
    with kafka.server:
        for number in range(pairs + 1):
            runs: list[Callable[[], Any]] = [
                lambda: ours.append(clean(job)),
                lambda n=number: theirs.append(kafka.clean(n)),  # type: ignore[misc]  # of this turn
            ]
            for run in runs if number % 2 else reversed(runs):
                run()
            say("clean", ours=ours[-1], kafka=theirs[-1])
    packed = make_log(directory / "zstd", _LOG_BYTES, Codec.ZSTD)
    packed_mb = packed.end_offset * RECORD_BYTES / 1e6
    zstd = [clean(packed) for _ in range(pairs)]
    say("zstd", ours=zstd[-1])
    few = clean(replace(job, map_bytes=_FEW_KEYS * SLOT_BYTES))
    say("small map", ours=few)
    assert few["end_offset"] < job.end_offset, "the map is to be too small"
    return {
        "clean_mb_s_a_core": [mb / run["core_s"] for run in ours[1:]],
        "clean_vs_kafka": [k["seconds"] / o["seconds"] for o, k in zip(ours[1:], theirs[1:], strict=True)],
        "clean_zstd_mb_s_a_core": [packed_mb / run["core_s"] for run in zstd],
        "map_share_of_budget": [few["map_bytes"] / (_FEW_KEYS * SLOT_BYTES)],
    }


def room_of_a_clean(directory: Path, pairs: int) -> Figures:
    """Measure the room that a clean needs beside its log: that of one group of segments, however large the log is."""
    found = [room(directory / str(number), _LOG_BYTES) for number in range(pairs)]
    for run in found:
        say("room", **run)
    return {
        "peak_bytes": [run["peak_bytes"] for run in found],
        "largest_group_bytes": [run["largest_group_bytes"] for run in found],
        "peak_vs_largest_group": [run["peak_bytes"] / run["largest_group_bytes"] for run in found],
    }


def meanwhile(directory: Path, pairs: int) -> Figures:
    found = produce_p99(directory, pairs)
    for beside, alone in found:
        say("p99", beside_ms=beside, alone_ms=alone)
    return {"produce_p99_meanwhile": [beside / alone for beside, alone in found]}


def commits(directory: Path, pairs: int) -> Figures:
    found = takeover(directory, runs=pairs)
    say("takeover", **found)
    return {"takeover_10m_commits_s": found["takeover_s"]}


def long_log(directory: Path, pairs: int) -> Figures:
    with TenGigabytes.running(directory) as log:
        looked_up = [log.lookup_ms(_LOOKUPS) for _ in range(_RUNS)]
        say("lookup", ms=looked_up)
        verified = [log.verify() for _ in range(_RUNS)]
        say("verify", runs=verified)
        restarts = [log.restart_killed_s() for _ in range(pairs)]
        say("restart", seconds=restarts)
    return {
        "lookup_10gb_ms": [run["most"] for run in looked_up],
        "verify_mb_s_a_core": [run["bytes"] / 1e6 / run["core_s"] for run in verified],
        "restart_killed_10gb_s": restarts,
    }


def tables(directory: Path, pairs: int) -> Figures:
    found = table(directory, runs=pairs)
    for run in found:
        say("table", **run)
    return {f"table_{name}": [run[name] for run in found] for name in ("load_s", "get_us", "bytes_a_key")}


ROWS: Final[Mapping[str, Callable[[Path, int], Figures]]] = {
    "clean": cleaning,
    "room": room_of_a_clean,
    "meanwhile": meanwhile,
    "takeover": commits,
    "long": long_log,
    "table": tables,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help=f"of {', '.join(ROWS)}; all, where none is named")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    names = rows_of(parser, given.rows, ROWS)
    figures: Figures = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"ottla-bench-{name}-") as folder:
            figures |= ROWS[name](Path(folder), given.pairs)
    return conclude(figures, GOALS, given.pairs)


if __name__ == "__main__":
    sys.exit(main())
