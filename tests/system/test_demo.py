"""The demo's own checks find what they should, and it leaves nothing behind, also on Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from children import ending
from examples.demo.comparison import compare
from examples.demo.flights import Flight, digest
from examples.demo.spark_job import missing_reason
from waiting import LIMIT_S

from ottla_stack.running import wait_for
from ottla_stack.state import StackState

ROOT = Path(__file__).parents[2]
SOURCE = [Flight(n, "AB"[n % 2], 1000 + n, b"{%d}" % n) for n in range(10)]


LOOPBACK_ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Runs a command without a network, which an installed demo does not need. Only root may do that."""


def demo(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.demo", *arguments]
    if os.geteuid() == 0:
        command = [*LOOPBACK_ALONE, *command]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


def compared(flights: list[Flight]) -> tuple[int, int, int]:
    found = compare(flights, ((f.carrier, f.number) for f in flights), SOURCE)
    assert (found["sha256_out"] == digest(SOURCE)) == ({f.number for f in flights} == set(range(10)))
    return found["records_out"], found["mismatches"], found["order_violations"]


def test_the_comparison_tells_right_from_wrong() -> None:
    swapped = [*SOURCE[:2], SOURCE[4], SOURCE[3], SOURCE[2], *SOURCE[5:]]
    assert compared(SOURCE) == (10, 0, 0)
    assert compared(SOURCE[:5] + SOURCE[6:]) == (9, 1, 0)
    assert compared(swapped) == (10, 0, 1)
    assert compared([*SOURCE, SOURCE[9]]) == (10, 0, 1), "a repetition is out of order, and counted once"
    changed = [*SOURCE[:9], SOURCE[9]._replace(timestamp_ms=1)]
    assert compare(changed, [], SOURCE)["mismatches"] == 1


@pytest.mark.timeout(1200)
@pytest.mark.feature(22, 175, 181)
def test_planted_faults_are_found(tmp_path: Path) -> None:
    with ending(demo(tmp_path, "--selftest")) as process:
        out, err = process.communicate(timeout=1180)
    assert process.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    faults = 2 if missing_reason() else 3  # the third needs Spark
    assert (result["planted"], result["found"], result["ok"]) == (faults, faults, True)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    with ending(demo(tmp_path)) as process:
        state = wait_for(lambda: next(filter(None, map(StackState.read, tmp_path.iterdir())), None), "the demo's stack")
        wait_for(lambda: len(list(tmp_path.glob("*/broker-*"))) == 3, "its brokers")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not state.supervisor.alive
    assert list(tmp_path.iterdir()) == []
