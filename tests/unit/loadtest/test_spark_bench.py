"""`make bench-spark`: what is counted as Spark's, and what its last line says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from loadtest.kafka.comparison import in_turn
from loadtest.spark.__main__ import DELIVERY, READ, TRICKLE, Bench
from loadtest.spark.processes import WorkerMemory, cpu_seconds, descendants
from loadtest.spark.sides import Side
from waiting import wait_until

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
HOLD = "import sys; held = bytearray(60_000_000); sys.stdin.read()"
PARENT = """
import subprocess, sys
burn, hold, *words = sys.argv[1:]
subprocess.run([sys.executable, "-c", burn], check=True)
child = subprocess.Popen([sys.executable, "-c", hold, *words], stdin=0)
print("ready", flush=True)
child.wait()
"""
SIDES = (Side("ottla", ""), Side("kafka", ""))


@contextmanager
def family(*words: str) -> Iterator[int]:
    """A process with a child that has used 0.3 s of CPU and ended, and one that holds 60 MB and has these words."""
    command = [sys.executable, "-c", PARENT, BURN, HOLD, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        yield parent.pid


def test_processes_that_a_process_has_started_count_with_it() -> None:
    with family() as pid:
        assert len(list(descendants(pid))) == 1
        assert cpu_seconds(pid) >= 0.3
    assert list(descendants(2**30)) == []
    assert cpu_seconds(2**30) == 0


def test_memory_is_that_of_one_moment_and_workers_are_told_apart() -> None:
    """Each family is a parent and a child; one child carries rows."""
    with family("pyspark.worker"), family(), WorkerMemory(os.getpid()) as memory:
        wait_until(lambda: memory.all_mb >= 120 and memory.workers_mb >= 60)
    assert 60 <= memory.workers_mb < 120 <= memory.all_mb
    assert 60 <= memory.largest_mb < 120


def test_sides_take_turns_and_the_first_pair_does_not_count() -> None:
    order: list[tuple[str, int]] = []

    def once(side: str, number: int) -> dict[str, int]:
        order.append((side, number))
        return {side: number}

    assert in_turn(("a", "b"), 2, once) == [({"a": 1}, {"b": 1}), ({"a": 2}, {"b": 2})]
    assert order == [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)]


@pytest.mark.parametrize(
    ("rate", "cpu_s", "missed"),
    [(200_000, 2.0, []), (199_999, 2.0, ["read_ratio", "read"]), (200_000, 2.5, ["read_cpu_ratio"])],
)
def test_goals_are_for_ratios_and_for_our_own_figures(rate: float, cpu_s: float, missed: list[str]) -> None:
    bench = Bench(SIDES, ["read"], pairs=1, records=1)
    ours, its = ({"records_s": each, "records": 1_000_000, "cpu_s": s} for each, s in ((rate, cpu_s), (200_000, 2.0)))
    bench.row("read", READ[:1], lambda: [(ours, its)])
    last = bench.tell()
    assert last["missed"] == missed
    assert (last["read"], last["read_kafka"], last["read_cpu_ratio"]) == (rate, 200_000, 2.0 / cpu_s)


def test_the_cost_of_each_row_once_is_what_it_takes_of_the_throughput() -> None:
    bench = Bench(SIDES, ["delivery"], pairs=1, records=1)
    bench.deliveries.add(DELIVERY, [({"records_s": 69.0}, {"records_s": 100.0})])
    last = bench.tell()
    assert (last["eos_cost"], last["missed"], last["skipped"]) == (0.31, ["exactly_once"], [])


def test_a_row_that_fails_is_skipped_and_one_that_nobody_wants_does_not_run() -> None:
    def fails() -> list[tuple[dict[str, float], dict[str, float]]]:
        raise TimeoutError("no batches")

    bench = Bench(SIDES, ["trickle"], pairs=1, records=1)
    bench.row("read", READ, fails)
    bench.row("trickle", TRICKLE, fails)
    assert bench.tell()["skipped"] == ["trickle"]
