"""The programs of `examples/` run as they stand, each against an empty cluster, and print what they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from children import ending
from waiting import LIMIT_S

from ottla.testing import Cluster

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
MOST_LINES: Final = 100
PRINTED: Final[Mapping[str, list[str]]] = MappingProxyType(
    {
        "any_kafka.py": ["ada 20", "grace 40", "not booked: 0"],
        "dead_letters.py": ["billed 1", "billed 2", "billed 3", "dead letter after 3 attempts"],
        "enrich.py": ["apple 140", "pear 90"],
        "mirror_failover.py": [
            f"billed in east: {' '.join(map(str, range(25)))}",
            f"billed in west: {' '.join(map(str, range(25, 40)))}",
            "moved: billing",
        ],
        "outbox.py": ["100 invoices, 100 different ones"],
        "unchanged_client.py": ["10000 events"],
    }
)
"""The lines that each program prints, sorted."""

NAME_A_BROKER: Final = {"any_kafka.py", "unchanged_client.py"}
"""Examples that take the address of a broker."""
ELSEWHERE: Final = {
    "any_kafka_spark.py",
    "change_data_capture.py",
    "delta_lake.py",
    "exactly_once.py",
    "locustfile.py",
    "parquet.py",
    "test_consumer_protocol.py",
    "test_with_faults.py",
    "web_service.py",
}
"""Examples with a test of their own."""


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should_and_again_when_it_is_repeated(name: str, tmp_path: Path) -> None:
    with Cluster(group_coordinators=1, txn_coordinators=1) as cluster:
        arguments = [cluster.bootstrap] if name in NAME_A_BROKER else []
        repeats = 2 if name == "outbox.py" else 1
        for _ in range(repeats):
            assert sorted(printed(cluster, name, tmp_path, *arguments)) == PRINTED[name]


def printed(cluster: Cluster, name: str, directory: Path, *arguments: str) -> list[str]:
    # Unbuffered output is written in pieces, and those of two threads would mix.
    environment = {**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    with ending(
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=directory
        )
    ) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    return out.splitlines()


@pytest.mark.parametrize(
    ("name", "outcome"), [("test_consumer_protocol.py", "2 passed"), ("test_with_faults.py", "2 passed")]
)
def test_the_example_of_a_test_passes(name: str, outcome: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=EXAMPLES, check=False)
    assert (done.returncode, outcome in done.stdout) == (0, True), done.stdout + done.stderr


def test_examples_are_short_and_each_has_a_test_and_a_line_in_the_readme() -> None:
    programs = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert programs.keys() == PRINTED.keys() | ELSEWHERE
    assert {name: lines for name, lines in programs.items() if lines > MOST_LINES} == {}
    linked = re.findall(r"\]\(examples/(\w+\.py)\)", (EXAMPLES.parent / "README.md").read_text())
    assert sorted(linked) == sorted(programs)
