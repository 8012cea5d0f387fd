"""A supervised process's log: bounded while the process lives, and what is kept of it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from waiting import until

from ottla_core.event_loop.tasks import end_task
from ottla_stack.child import Child
from ottla_stack.child_log import ChildLog, keep_trimmed

LIMIT = 1_000


def test_a_log_over_the_limit_is_emptied_and_what_it_held_is_kept_beside(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "logs" / "broker-0.log", limit_bytes=LIMIT)
    log.trim()  # nothing was ever written
    written = b"".join(b"line %03d\n" % n for n in range(200))
    with log.open() as writer:
        os.write(writer.fileno(), written[:LIMIT])
        log.trim()
        assert log.path.read_bytes() == written[:LIMIT], "the limit itself is not over it"
        os.write(writer.fileno(), written[LIMIT:])
        log.trim()
        assert log.path.stat().st_size == 0
        os.write(writer.fileno(), b"last words\n")
    assert log.path.read_bytes() == b"last words\n", "the writer goes on at the new end, without a hole"
    assert (tmp_path / "logs" / "broker-0.log.1").read_bytes() == written


def test_what_was_kept_before_makes_room(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "etcd.log", limit_bytes=LIMIT)
    for mark in (b"a", b"b"):
        with log.open() as writer:
            writer.write(mark * (LIMIT + 1))
        log.trim()
    assert (tmp_path / "etcd.log.1").read_bytes() == b"b" * (LIMIT + 1)
    assert {path.name for path in tmp_path.iterdir()} == {"etcd.log", "etcd.log.1"}


CHATTERBOX = """
import itertools, os, time
for n in itertools.count():
    os.write(1, b"line %07d\\n" % n)  # each line is one write
    time.sleep(0.0001)
"""


def whole_lines(kept: Path) -> list[int]:
    """The numbers of the lines in it; the last one may have been in the middle of its write."""
    lines = kept.read_bytes().splitlines()[:-1] if kept.exists() else []
    return [int(line.removeprefix(b"line ")) for line in lines]


async def test_the_log_of_a_process_that_never_stops_writing_stays_bounded(tmp_path: Path) -> None:
    log, kept = ChildLog(tmp_path / "broker-0.log", limit_bytes=5_000), tmp_path / "broker-0.log.1"
    numbers: list[int] = []

    def far_on() -> bool:
        log.trim()
        numbers[:] = whole_lines(kept)
        return bool(numbers) and numbers[0] > 4_000

    child = Child("broker-0", [sys.executable, "-c", CHATTERBOX], log, lambda: None)
    child.start()
    try:
        await until(far_on)
        assert child.restarts == 0, "it was never held up, and never ended"
        assert log.path.stat().st_size < 45_000, "less than the 52,000 bytes that were written"
    finally:
        await child.stop(limit_s=20)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "what is kept has no hole"


async def test_a_log_that_can_not_be_trimmed_does_not_keep_the_others_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken.log").mkdir()
    broken = ChildLog(tmp_path / "broken.log", limit_bytes=0)
    whole = ChildLog(tmp_path / "whole.log", limit_bytes=LIMIT)
    with whole.open() as writer:
        writer.write(b"x" * (LIMIT + 1))
    trimming = asyncio.create_task(keep_trimmed([broken, whole], every_s=0.01))
    await until(lambda: whole.path.stat().st_size == 0)
    await end_task(trimming)
    assert "broken.log could not be trimmed" in caplog.text
