"""examples/exactly_once.py, killed and started again: its totals are exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from children import KILLED_AT_AN_END, ending
from examples.demo import dataset
from waiting import LIMIT_S

import ottla
from ottla.testing import Cluster

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/exactly_once.py"
FLIGHTS = 10_000
KILLS = (("before", 1, 0), ("before", 5, 3), ("after", 5, 4))
"""At which end of a transaction each run kills itself, and how many batches it has counted by then. The first end is
that of the import; there are twenty at least."""

EXAMPLE_KILLED = KILLED_AT_AN_END + 'import runpy; runpy.run_path(sys.argv[0], run_name="__main__")'


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(group_coordinators=1, txn_coordinators=1) as cluster:
        yield cluster


def run(cluster: Cluster, *command: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap}
    line = [sys.executable, *command, str(FLIGHTS)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)


@pytest.mark.feature(145, 149)
def test_totals_are_exact_after_kills_at_the_end_of_transactions(cluster: Cluster) -> None:
    for when, number, counted in KILLS:
        with ending(run(cluster, "-c", EXAMPLE_KILLED, when, str(number), str(EXAMPLE))) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == -signal.SIGKILL, err
        assert out.count("counted") == counted
    with ending(run(cluster, "-m", "examples.exactly_once")) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    numbers, miles = Counter[str](), Counter[str]()
    for flight in islice(dataset.flights(), FLIGHTS):
        numbers[flight["carrier"]] += 1
        miles[flight["carrier"]] += int(flight["distance"])
    exact = [f"{carrier} {numbers[carrier]} {miles[carrier]}" for carrier in sorted(numbers)]
    assert [line for line in out.splitlines() if "counted" not in line] == exact
    totals = {
        r.key: r.value for r in ottla.read("carrier-totals", bootstrap=cluster.bootstrap, key="str", value="json")
    }
    assert [f"{carrier} {t['flights']} {t['miles']}" for carrier, t in sorted(totals.items())] == exact
