"""The watchdog of the event loop: long turns by the CPU time of its thread, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop
from waiting import until

from ottla_core.event_loop import watchdog
from ottla_core.event_loop.watchdog import LIMIT_S, Watchdog

_ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.long_turns


def burn(cpu_s: float) -> None:
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    """Disable garbage collection, because a collection of all objects of a test run is a long turn in itself."""
    gc.disable()
    yield
    gc.enable()


@contextmanager
def watching() -> Iterator[Watchdog]:
    dog = Watchdog()
    dog.start()
    try:
        yield dog
    finally:
        dog.stop()


def on_uvloop(test: Callable[[], object]) -> None:
    """The loop that services run on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]  # any awaitable will do


def test_a_long_turn_is_counted_and_told_with_what_it_ran(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_LOG_INTERVAL_S", 0.0)

    def told() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == watchdog.__name__]

    async def test() -> None:
        with watching() as dog:
            await asyncio.sleep(0.06)
            for turns in range(1, 11):  # on a busy machine the last look may come when the turn has just ended
                burn(3 * LIMIT_S)
                await until(lambda: dog.long_turns.value >= turns)  # noqa: B023
                assert dog.long_turns.value == turns == len(told())
                assert 3 * LIMIT_S <= dog.max_cpu_s < 4 * LIMIT_S
                if "burn (test_watchdog.py:" in told()[-1]:
                    break
                assert re.search(r"(> run \(runners\.py:\d+\)|was not seen)$", told()[-1]), "it names no other code"

    on_uvloop(test)
    assert "ms of CPU time" in told()[-1]
    assert "burn (test_watchdog.py:" in told()[-1]


def test_many_short_turns_are_none() -> None:
    async def test() -> None:
        with watching() as dog:
            for _ in range(100):
                burn(0.01)
                await asyncio.sleep(0)
            assert dog.long_turns.value == 0
            assert 0.01 <= dog.max_cpu_s < LIMIT_S

    on_uvloop(test)


def test_a_turn_that_waits_uses_nothing() -> None:
    async def test() -> None:
        with watching() as dog:
            await asyncio.sleep(0.06)
            time.sleep(3 * LIMIT_S)
            await until(lambda: dog.max_wall_s > 2 * LIMIT_S)
            assert dog.long_turns.value == 0
            assert dog.max_cpu_s < LIMIT_S

    on_uvloop(test)


def test_what_comes_too_fast_is_counted_and_told_together(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_LOG_INTERVAL_S", 3600.0)

    async def test() -> None:
        with watching() as dog:
            for number in range(1, 5):
                if number == 4:
                    monkeypatch.setattr(watchdog, "_LOG_INTERVAL_S", 0.0)
                burn(1.2 * LIMIT_S)
                await until(lambda: dog.long_turns.value == number)  # noqa: B023

    on_uvloop(test)
    first, second = (each.getMessage() for each in caplog.records if each.name == watchdog.__name__)
    assert "before it" not in first
    assert ", and 2 before it" in second


@pytest.mark.parametrize("generation", [1, 2])
def test_what_was_spent_on_garbage_is_told(generation: int, caplog: pytest.LogCaptureFixture) -> None:
    kept: list[list[list[None]]] = []
    spent_s = 0.0

    async def test() -> None:
        nonlocal spent_s
        with watching() as dog:
            await asyncio.sleep(0.06)
            until_s = time.thread_time() + 1.5 * LIMIT_S
            while time.thread_time() < until_s:
                kept.append([[] for _ in range(0 if generation == 2 else 50_000)])
                began_s = time.thread_time()
                gc.collect(generation)
                spent_s += time.thread_time() - began_s
            await until(lambda: dog.long_turns.value)

    on_uvloop(test)
    (record,) = [each for each in caplog.records if each.name == watchdog.__name__]
    assert isinstance(record.args, tuple)
    used_ms, collecting_ms, *_ = record.args
    assert isinstance(used_ms, float)
    assert isinstance(collecting_ms, float)
    assert used_ms >= 1000 * spent_s >= collecting_ms > 900 * spent_s > 0


def test_a_test_fails_on_a_long_turn_of_a_cluster(tmp_path: Path) -> None:
    """The fixture of tests/conftest.py."""
    test = tmp_path / "test_holds.py"
    test.write_text(
        textwrap.dedent(
            """
            import asyncio
            import time
            from ottla.testing import Cluster

            async def hold():
                until_s = time.thread_time() + 0.3
                while time.thread_time() < until_s:
                    pass

            def test_holds():
                with Cluster(group_coordinators=0) as cluster:
                    cluster.run(hold())
                    cluster.run(asyncio.sleep(0.1))
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", str(test)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout
    assert "a turn of the event loop took" in done.stdout
