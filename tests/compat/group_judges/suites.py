"""Tests that the authors of clients have written, run as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from peers.go.own_tests import kgo_tests
from peers.place import PeerError
from tests.compat.group_judges.place import Facts, Place

CHECKOUTS: Final = "CHECKOUTS"
"""The environment's variable that names a folder with checkouts of confluent-kafka-python and librdkafka."""
LIBRDKAFKA_TESTS: Final = (
    *("0018", "0019", "0022", "0030", "0033", "0045", "0050", "0051", "0056", "0069", "0081 Group", "0089", "0091"),
    *("0099", "0102", "0112", "0113", "0118", "0122", "0130", "0140"),
)
"""Tests of consumers and of groups by their numbers. A word after a number selects the subtests with this word in their
names. Tests with the mock cluster of librdkafka are not here, because they need no brokers.

0113 can hang with any server: librdkafka waits for ever for the rebalance callback of a consumer that is destroyed, but
not closed, right after it got an assignment. Kafka's default heartbeat interval makes this rare.
"""
CONFLUENT_TESTS: Final = "tests/integration/consumer"
LIMIT_S: Final = 1200.0
"""For one suite at one cluster. 0113 takes up to ten minutes."""
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
    """One of LIBRDKAFKA_TESTS, in a checkout that has been built.

    Its quick mode leaves out nearly all subtests, so it is off. CI triples the time limits.
    """
    tests = Path(os.environ[CHECKOUTS]) / "librdkafka" / "tests"
    number, _, subtests = test.partition(" ")
    with tempfile.TemporaryDirectory() as folder:
        config, report = Path(folder) / "test.conf", Path(folder) / "report.json"
        config.write_text(f"bootstrap.servers={place.bootstrap}\n")
        environment = {
            "CI": "true",
            "RDKAFKA_TEST_CONF": str(config),
            "TEST_CONSUMER_GROUP_PROTOCOL": "consumer",
            "TEST_KAFKA_VERSION": "4.0.0",
            "TEST_REPORT": str(report),
            "TESTS": number,
            **({"SUBTESTS": subtests} if subtests else {}),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
        }
        told = run_suite(["./test-runner", "-p1", "-L"], environment, cwd=tests)
        states = {name: one["state"] for name, one in json.loads(report.read_text())["tests"].items()}
    ran = {name: state for name, state in states.items() if name.startswith(number) and state != "SKIPPED"}
    if not ran:
        raise PeerError(f"librdkafka has run no test {number}")
    return {**ran, "passed subtests": len(re.findall(r": PASS \(", told))}


def confluent(place: Place) -> Facts:
    """confluent-kafka's own tests of consumers, in a checkout that has a virtual environment with confluent-kafka."""
    checkout = Path(os.environ[CHECKOUTS]) / "confluent-kafka-python"
    environment = {"BROKERS": place.bootstrap, "TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = [str(checkout / ".venv/bin/python"), "-m", "pytest", "-q", f"--junitxml={report}"]
        run_suite([*pytest, CONFLUENT_TESTS], environment, cwd=checkout)
        cases = ElementTree.parse(report).iter("testcase")
        return {case.attrib["name"]: case[0].tag if len(case) else "passed" for case in cases}


def run_suite(words: Sequence[str | Path], environment: Mapping[str, str], cwd: Path | None = None) -> str:
    """What the suite prints. Raises PeerError with its last words if it fails or takes too long."""
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        raise PeerError(f"{words[0]} has not ended in {LIMIT_S:g} s:\n{said[-_TAIL_CHARS:]}") from late
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
