"""The world itself: one seed is one run, a kill is no cancellation, and nothing escapes.

Each test runs its world in a process of its own, in which Python's clocks, files and threads are replaced for good.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest
from tests.world import substitutes
from tests.world.disk import Disks, Volume
from tests.world.fibers import StuckError, World
from tests.world.forked import in_a_fork
from tests.world.network import Network
from tests.world.process import Process
from tests.world.seed import Plan, run_in_a_fork

from ottla_broker.storage import files

STORM_S = 6.0
SEEDS = 60
DATA = PurePosixPath("/host/data")


class Made:
    """A world with one disk, in this process."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.network, self.disks = Network(self.world), Disks(self.world)
        self.disks.volumes["host"] = Volume("data")
        substitutes.put_in_place(self.world, self.network, self.disks)

    def process(self, main: Callable[[Process], Coroutine[Any, Any, None]]) -> Process:
        return Process(self.world, self.network, "host", main)


def test_a_seed_has_one_trace_whatever_strings_hash_to() -> None:
    traces = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.world", "--first", "1", "--seeds", "8", "--storm", str(STORM_S)]
        ran = subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True, timeout=120
        )
        traces.add(json.loads(ran.stdout.splitlines()[-1])["traces"])
    assert len(traces) == 1


def test_another_seed_has_another_trace() -> None:
    traces = {run_in_a_fork(Plan(seed, storm_s=1.0)).trace for seed in (1, 2)}
    assert len(traces) == 2


def test_faults_that_are_left_out_leave_the_others_as_they_are() -> None:
    plan = Plan(2, STORM_S, profile="table")
    whole = run_in_a_fork(plan)
    assert len(whole.begun) > 4
    assert run_in_a_fork(replace(plan, faults=whole.begun)).trace == whole.trace
    some = whole.begun[::2]
    assert run_in_a_fork(replace(plan, faults=some)).begun == some


def test_what_a_killed_process_would_do_at_its_end_is_never_done() -> None:
    def work() -> list[str]:
        made = Made()

        async def main(_: Process) -> None:
            try:
                files.open_file(DATA / "begun", write=True)
                await asyncio.sleep(10)
            finally:
                files.open_file(DATA / "ended", write=True)

        process = made.process(main)
        made.world.run_for(1.0)
        process.kill()
        del process
        gc.collect()
        made.world.run_for(100.0)
        return made.disks.names_in(DATA)

    assert in_a_fork(work) == ["begun"]


def test_what_a_parent_has_left_is_not_finalized_in_its_fork() -> None:
    class Left:
        me: Left
        finalized = 0

        def __del__(self) -> None:
            Left.finalized += 1

    def work() -> int:
        gc.collect()
        return Left.finalized

    gc.disable()
    try:
        left = Left()
        left.me = left
        del left
        assert in_a_fork(work) == 0
    finally:
        gc.enable()


def test_a_kill_may_come_in_the_middle_of_a_write() -> None:
    def work() -> list[int]:
        found = []
        for seed in range(40):
            made = Made(seed)

            async def main(_: Process) -> None:
                files.open_file(DATA / "file", write=True).write([bytes(1000)], 0)

            process = made.process(main)
            for _ in range(20):
                made.world.run_for(2e-6)
                if made.disks.exists(DATA / "file") and 0 < made.disks.size_bytes(DATA / "file") < 1000:
                    process.kill()
                    break
            made.world.run_for(1.0)
            found.append(made.disks.size_bytes(DATA / "file"))
        return found

    sizes = in_a_fork(work)
    assert any(0 < size < 1000 for size in sizes)


def test_what_reaches_for_a_thread_of_the_machine_is_named() -> None:
    def work() -> str:
        made = Made()

        async def main(_: Process) -> None:
            threading.Thread(target=print).start()

        process = made.process(main)
        made.world.run_for(1.0)
        return repr(process.ended)

    assert in_a_fork(work).startswith("EscapeError('Thread.start was called")


def test_time_is_the_worlds() -> None:
    def work() -> tuple[float, float]:
        made = Made()
        passed = []

        async def main(_: Process) -> None:
            began = time.monotonic()
            await asyncio.sleep(30 * 24 * 3600)
            await asyncio.to_thread(time.sleep, 5)
            passed.append(time.monotonic() - began)

        made.process(main)
        made.world.run_until(lambda: bool(passed), limit_s=1e9)
        return passed[0], made.world.now

    passed, now = in_a_fork(work)
    assert passed == pytest.approx(30 * 24 * 3600 + 5, abs=0.1)
    # The host's clock is a little too fast or too slow.
    assert 0 < abs(passed / now - 1) < 0.001


def test_a_copy_that_is_put_back_in_place_keeps_the_inodes_of_the_files_that_are_there() -> None:
    def work() -> list[str]:
        made, disk = Made(), Volume("data")
        made.disks.volumes["host"] = disk
        kept = made.disks.open_file(DATA / "kept", write=True)
        kept.write([b"old"], 0)
        made.disks.open_file(DATA / "removed later", write=True)
        disk.back_up()
        kept.write([b"newer"], 0)
        made.disks.remove(DATA / "removed later")
        made.disks.open_file(DATA / "made later", write=True)
        disk.copy_back()
        return [kept.read(0, 9).decode(), *sorted(made.disks.names_in(DATA))]

    assert in_a_fork(work) == ["old", "kept", "removed later"]


def test_setting_the_date_of_a_host_does_not_change_its_monotonic_clock() -> None:
    def work() -> tuple[float, float]:
        made, found = Made(), list[tuple[float, float]]()

        async def main(_: Process) -> None:
            while len(found) < 2:
                found.append((time.monotonic(), time.time()))
                await asyncio.sleep(10)

        made.process(main)
        made.world.run_for(5.0)
        made.world.clock_of("host").step(-60.0)
        made.world.run_for(10.0)
        (before, date_before), (after, date_after) = found
        return after - before, date_after - date_before

    counted, by_date = in_a_fork(work)
    assert counted == pytest.approx(10, abs=0.01)
    assert by_date == pytest.approx(-50, abs=0.02)


def test_a_world_in_which_nothing_can_happen_says_so() -> None:
    def work() -> str:
        made = Made()

        async def main(_: Process) -> None:
            await asyncio.Event().wait()

        made.process(main)
        with pytest.raises(StuckError, match="nothing will ever happen again") as stuck:
            made.world.run_until(lambda: False, limit_s=1e9)
        return str(stuck.value)

    assert in_a_fork(work)


def test_a_cluster_heals_and_keeps_what_it_has_acknowledged() -> None:
    outcomes = [run_in_a_fork(Plan(seed, STORM_S)) for seed in range(SEEDS)]
    assert {each.seed: (*each.violations, *each.waiting) for each in outcomes if not each.is_green} == {}
    assert sum(each.counts.get("judged", 0) for each in outcomes) > 100 * SEEDS
    assert sum(each.kills for each in outcomes) > SEEDS
    assert sum(each.counts.get("shards judged", 0) for each in outcomes) > SEEDS
    assert any(each.counts.get("structures", 0) > 500 for each in outcomes)
    assert 2 * sum(each.counts.get("elections", 0) for each in outcomes) > SEEDS
