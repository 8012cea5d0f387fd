"""`make bench`: every figure of docs/benchmarks.md, the comparisons as alternating pairs in one run.

Ratios are of neighbouring runs, so that a machine whose speed drifts does not decide them. The table goes to the
terminal, the raw figures to a JSON file that the last line names.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import ottla
from loadtest.programs import Program, run
from ottla_stack.running import RunningStack

console = Console()


class Figures:
    """What was measured, as rows for people and raw for machines."""

    def __init__(self) -> None:
        self.raw: dict[str, Any] = {}
        self.last: dict[str, float] = {}
        self.table = Table("figure", "median", "spread", "goal", "reached", title="ottla, measured")

    def add(self, name: str, values: list[float], unit: str, goal: str, *, least: float = 0, most: float = 0) -> None:
        median = statistics.median(values)
        reached = median >= least and (not most or median <= most)
        self.raw[name] = {"median": median, "values": values, "unit": unit, "goal": goal, "reached": reached}
        spread = f"{short(min(values))} … {short(max(values))}" if len(values) > 1 else ""
        self.table.add_row(name, f"{short(median)} {unit}", spread, goal, "yes" if reached else "NO")
        console.print(f"{name}: {short(median)} {unit}")


def short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def produce_and_consume(figures: Figures, stack: RunningStack, pairs: int, records: int) -> None:
    real, count = stack.bootstrap, ("--records", str(records))
    figures.add(
        "SDK produce, 100 B, acks=1", repeat(pairs, "rows.produce", real, *count), "records/s", "≥ 0.5 M", least=500_000
    )
    figures.add("… acks=all", repeat(pairs, "rows.produce", real, *count, "--acks", "all"), "records/s", "")
    keyed = repeat(pairs, "rows.produce", real, *count, "--keys", "100000")
    figures.add("… 100,000 distinct keys", keyed, "records/s", "≥ 0.25 M", least=250_000)
    one_kb = repeat(pairs, "rows.produce", real, "--size", "1000", "--records", str(records // 4))
    figures.add("… 1 KB values", one_kb, "records/s", "")
    asyncio_s = repeat(pairs, "rows.aio_produce", real, *count)
    figures.add("… asyncio, an awaited future a record", asyncio_s, "records/s", "≥ 0.3 M", least=300_000)
    runs = [
        (run("rows.aio_produce", real, *count, "--many", "--window", "100000"), run("rows.produce", real, *count))
        for _ in range(pairs)
    ]
    ratios = [a["records_s"] / b["records_s"] for a, b in runs]
    figures.add("… asyncio, send_many against send", ratios, "×", "≥ 0.8", least=0.8)
    ottla.Admin(real).topics.create("small", partitions=6)
    run("rows.produce", real, "--topic", "small", *count, "--keys", "1000")
    small = ("--topic", "small")
    each = repeat(pairs, "rows.consume", real, *small)
    figures.add("SDK consume, key and value touched", each, "records/s", "≥ 0.6 M", least=600_000)
    batches = repeat(pairs, "rows.consume", real, *small, "--batches")
    figures.add("… by batches()", batches, "records/s", "≥ 2 M", least=2_000_000)


IDEMPOTENCE_PAIRS = 7


def replication(figures: Figures, stack: RunningStack, pairs: int, records: int) -> None:
    real, count = stack.bootstrap, ("--records", str(records // 2))
    admin = ottla.Admin(real)
    admin.topics.create("alone", partitions=6, replicas=1)
    admin.topics.create("thrice", partitions=6, replicas=3, config={"min.insync.replicas": 2})
    alone, thrice = ("--topic", "alone", *count), ("--topic", "thrice", *count, "--acks", "all", "--idempotent")
    runs = [(run("rows.produce", real, *thrice), run("rows.produce", real, *alone)) for _ in range(pairs)]
    figures.add("produce, 3 replicas, acks=all", [float(a["records_s"]) for a, _ in runs], "records/s", "")
    ratios = [a["records_s"] / b["records_s"] for a, b in runs]
    figures.add("… against 1 replica, acks=1", ratios, "×", "≥ 1/3", least=1 / 3)
    plain = ("--topic", "alone", *count, "--acks", "all")
    runs = [
        (run("rows.produce", real, *plain, "--idempotent"), run("rows.produce", real, *plain))
        for _ in range(IDEMPOTENCE_PAIRS)
    ]
    ratios = [a["records_s"] / b["records_s"] for a, b in runs]
    figures.add("idempotence against none, 1 replica, acks=all", ratios, "×", "≥ 0.9", least=0.9)


def failover(figures: Figures) -> None:
    found = run("rows.failover")
    name = "1,000 partitions led again after a death"
    figures.add(name, found["led_again_s"], "s", "≤ 10", most=10)
    figures.raw[name]["in_sync_again_s"] = found["in_sync_again_s"]
    brokers = [percent for name, percent in found["idle_cpu_percent"].items() if name.startswith("broker")]
    figures.add("… idle, CPU of a broker", [max(brokers)], "% of a core", "≤ 10", most=10)


def repeat(times: int, program: Program, *arguments: str) -> list[float]:
    return [float(run(program, *arguments)["records_s"]) for _ in range(times)]


def broker_alone(figures: Figures) -> None:
    append = run("rows.append")
    figures.add("append of 64 KB besides write(2)", [append["besides_write_us"]], "µs CPU", "≤ 40", most=40)
    figures.add("… write(2)", [append["write_us"]], "µs CPU", "")
    growth = run("rows.append", "--gigabytes", "8")
    ratios = growth["to_plain_file"]
    figures.add("append to a log of 8 GB against a plain file", ratios, "×", "")
    figures.add("… last gigabytes to first", [growth["last_to_first"]], "×", "≥ 0.8", least=0.8)


def footprint(figures: Figures) -> None:
    found = run("rows.footprint")
    figures.add("ottla up until ready", found["up_ready_s"], "s", "≤ 5", most=5)
    figures.add("ottla topic ls", [found["topic_ls_s"]], "s", "≤ 0.4", most=0.4)
    figures.add("ottla.testing.Cluster until ready", [found["testing_cluster_ready_s"]], "s", "≤ 1", most=1)
    figures.add("the whole stack, idle", [sum(s["mb"] for s in found["services"].values())], "MB", "")
    ours = {name: s for name, s in found["services"].items() if name != "etcd"}
    figures.add("largest idle service", [max(s["mb"] for s in ours.values())], "MB", "≤ 80", most=80)
    figures.add("… CPU", [max(s["cpu_percent"] for s in ours.values())], "% of a core", "≤ 1", most=1)


def memory(figures: Figures, gigabytes: float) -> None:
    found = run("rows.memory", "--gigabytes", str(gigabytes))
    figures.add(f"broker through {gigabytes:g} GB", [found["broker_peak_mb"]], "MB", "≤ 150", most=150)
    limit = found["producer_limit_mb"]
    figures.add("producer through it", [found["producer_peak_mb"]], "MB", f"≤ buffer + 60 = {limit}", most=limit)


def groups(figures: Figures) -> None:
    found = run("rows.groups")
    wanted = found["commits"]["1000"]
    figures.add("1,000 commits a second, factor 3, p99", [wanted["p99_ms"]], "ms", "≤ 50", most=50)
    figures.raw["1,000 commits a second, factor 3, p99"]["rates"] = found["commits"]
    figures.add("… most commits a second with that p99", [found["knee"]], "a second", "")
    figures.add("OffsetFetch, nobody else there, p99", [found["fetch_p99_ms"]], "ms", "≤ 30", most=30)
    for who, way in (("Kafka's clients", "kafka"), ("the SDK, one process each", "own_connections")):
        used = found[way]["cpu_percent"]
        figures.add(f"5,000 members that only live, {who}, CPU", [used], "% of a core", "≤ 40", most=40)
        figures.raw[f"5,000 members that only live, {who}, CPU"]["more"] = found[way]
    figures.add("… memory a member", [found["kb_per_member"]], "KB", "≤ 6", most=6)
    figures.add("rebalance of 50 members", [found["rebalance_s"]], "s", "≤ 2", most=2)
    figures.add("shard of 100,000 keys served after kill -9", [found["takeover_of_heavy_shard_s"]], "s", "≤ 3", most=3)
    large = run("rows.large_groups")
    figures.last |= {name: round(large[name], 2) for name in _LAST}
    figures.add("5,000 members rebalance, longest turn", [large["longest_turn_ms"]], "ms CPU", "≤ 100", most=100)
    figures.add("… from the last join to the last sync", [large["rebalance_cpu_s"]], "s CPU", "≤ 5", most=5)
    figures.add("10,000 groups that came and went", [large["mb_10000_groups"]], "MB", "≤ 100", most=100)
    again, closed = [large["repeats"]], [large["repeats_after_close"]]
    figures.add("a commit for each of 20,000 records a second, repeats", again, "records", "≤ 1,000", most=1_000)
    figures.add("… after close()", closed, "records", "0", most=0.5)


_LAST = ("longest_turn_ms", "rebalance_cpu_s", "mb_10000_groups", "repeats")
"""The figures of large groups that the last line of a run repeats."""


def connections(figures: Figures) -> None:
    found = run("rows.connections")
    idle, stalled = found["idle"], found["stalled"][-1]
    figures.add("5,000 idle Kafka connections", [idle["more_mb"]], "MB", "≤ 200", most=200)
    ratios = [with_them / without for with_them, without in idle["p99_ms"]]
    figures.add("… a produce beside them, p99", ratios, "×", "≤ 1.1", most=1.1)
    figures.add(f"{stalled['readers']} readers that don't read", [stalled["mb_each"]], "MB each", "≤ 8", most=8)


def kafka_codec(figures: Figures) -> None:
    """The ratios are of neighbouring rounds, which measured both."""
    for name, rounds in run("rows.codec").items():
        for way in ("encode", "decode"):
            ours, theirs = rounds[f"{way}_us"], rounds[f"kafka_python_{way}_us"]
            figures.add(f"{name}: {way}", ours, "µs CPU", "")
            figures.add(f"{name}: {way}, kafka-python", theirs, "µs CPU", "")
            ratios = [their_us / our_us for our_us, their_us in zip(ours, theirs, strict=True)]
            figures.add(f"{name}: {way}, times as fast", ratios, "×", "≥ 1", least=1)


def walks(figures: Figures) -> None:
    for name, seconds in run("rows.walk").items():
        figures.add(f"a million records walked: {name}", seconds, "s CPU", "")


_PARTS = ("traffic", "replication", "broker", "walk", "codec", "footprint", "connections", "groups", "memory")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, default=10, help="of the memory run")
    parser.add_argument("--rows", default="", help=f"some of {', '.join(_PARTS)}, with commas; all by default")
    given = parser.parse_args()
    figures, began = Figures(), time.monotonic()
    rows = [row for row in given.rows.split(",") if row] or _PARTS
    if unknown := [row for row in rows if row not in _PARTS]:
        parser.error(f"there is no row {unknown[0]}; there are {', '.join(_PARTS)}")
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    try:
        if "traffic" in rows:
            with RunningStack(directory / "stack", brokers=1) as stack:
                ottla.Admin(stack.bootstrap).topics.create("bench", partitions=6)
                produce_and_consume(figures, stack, given.pairs, given.records)
        if "replication" in rows:
            with RunningStack(directory / "three") as stack:
                replication(figures, stack, given.pairs, given.records)
            failover(figures)
        if "broker" in rows:
            broker_alone(figures)
        if "walk" in rows:
            walks(figures)
        if "codec" in rows:
            kafka_codec(figures)
        if "footprint" in rows:
            footprint(figures)
        if "connections" in rows:
            connections(figures)
        if "groups" in rows:
            groups(figures)
        if "memory" in rows:
            memory(figures, given.gigabytes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print(figures.table)
    with tempfile.NamedTemporaryFile("w", prefix="ottla-bench-", suffix=".json", delete=False) as raw:
        json.dump(figures.raw, raw, indent=1)
    missed = [name for name, figure in figures.raw.items() if not figure["reached"]]
    seconds = round(time.monotonic() - began)
    print(
        json.dumps(
            {
                "figures": len(figures.raw),
                "missed": missed,
                "pairs": given.pairs,
                "seconds": seconds,
                "raw": raw.name,
                **figures.last,
            }
        )
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
