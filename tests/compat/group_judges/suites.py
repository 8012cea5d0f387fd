"""Tests that the authors of clients have written, run as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from peers.go.own_tests import kgo_tests
from peers.place import PeerError
from tests.compat.group_judges.place import Facts, Place

CHECKOUTS: Final = "CHECKOUTS"
"""The environment's variable that names a folder with checkouts of confluent-kafka-python and librdkafka."""
LIBRDKAFKA_TESTS: Final = ("0018", "0022", "0045", "0102", "0106", "0113", "0118", "0120", "0153")
CONFLUENT_TESTS: Final = "tests/integration/consumer"
_LIMIT_S: Final = 900.0
_TAIL_CHARS: Final = 3000


def franz_go(place: Place) -> Facts:
    """A test of franz-go's own: chains of groups whose members come and go, and every record once, in order.

    All of its variants run, three of them with the consumer protocol. It waits for ever if some are filtered out, for
    each takes one of four places before it is, and gives none back.
    """
    environment = {
        "KGO_SEEDS": place.bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "20000",
        "KGO_LOG_LEVEL": "none",
    }
    told = run_suite([kgo_tests(), "-test.v", "-test.run", "^TestGroupETL$"], environment)
    return {"passed": sorted(re.findall(r"--- PASS: TestGroupETL/(\S+)", told))}


def librdkafka(place: Place, test: str) -> Facts:
    """A test of librdkafka's own, in a checkout that has been built: `./configure && make && make -C tests build`."""
    tests = Path(os.environ[CHECKOUTS]) / "librdkafka" / "tests"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "test.conf"
        config.write_text(f"bootstrap.servers={place.bootstrap}\n")
        environment = {
            "RDKAFKA_TEST_CONF": str(config),
            "TEST_CONSUMER_GROUP_PROTOCOL": "consumer",
            "TEST_KAFKA_VERSION": "4.0.0",
            "TESTS": test,
            "LD_LIBRARY_PATH": "../src:../src-cpp",
        }
        told = run_suite(["./test-runner", "-p1", "-Q"], environment, cwd=tests)
    # In the last table, between the colours of a terminal.
    outcomes = re.findall(rf"{test}_\w+.*?\b(PASSED|FAILED|SKIPPED)\b", told)
    return {"outcome": outcomes[-1] if outcomes else "none"}


def confluent(place: Place) -> Facts:
    """confluent-kafka's own tests of consumers, with the installed confluent-kafka."""
    folder = Path(os.environ[CHECKOUTS]) / "confluent-kafka-python"
    environment = {"BROKERS": place.bootstrap, "TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}
    told = run_suite([sys.executable, "-m", "pytest", "-q", "-rA", CONFLUENT_TESTS], environment, cwd=folder)
    return {"outcomes": sorted(set(re.findall(r"^(?:PASSED|FAILED|ERROR|SKIPPED) \S+", told, re.MULTILINE)))}


def run_suite(words: Sequence[str | Path], environment: Mapping[str, str], cwd: Path | None = None) -> str:
    """What the suite says. Raises PeerError with its last words where it fails."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise PeerError(f"{words[0]} ended with {done.returncode}:\n{done.stdout[-_TAIL_CHARS:]}")
    return done.stdout


def suites() -> dict[str, Callable[[Place], Facts]]:
    """The suites of this run by their names: those that no registry has are there only with CHECKOUTS."""
    everywhere: dict[str, Callable[[Place], Facts]] = {"TestGroupETL": franz_go}
    if not os.environ.get(CHECKOUTS):
        return everywhere
    of_librdkafka = {f"librdkafka {test}": partial(librdkafka, test=test) for test in LIBRDKAFKA_TESTS}
    return {**everywhere, **of_librdkafka, "confluent-kafka": confluent}
