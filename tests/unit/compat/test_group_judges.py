"""What judges of groups find is compared: what differs from run to run is left out, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from peers.place import PeerError
from tests.compat.group_judges.comparison import compare
from tests.compat.group_judges.place import Place
from tests.compat.group_judges.suites import CHECKOUTS, confluent, librdkafka
from tests.compat.group_judges.tables import normalized, own_groups

TOLD = """
GROUP            TOPIC      PARTITION  CURRENT-OFFSET  CONSUMER-ID             HOST            CLIENT-ID
mixed-of-t-4     t-4        1          10              +JbWx1i4S7GbUQSFNzDhWw  /127.0.0.1      rdkafka
mixed-of-t-4     t-4        0          10              rdkafka-0b3e2ff3-1d7e-4a6b-9a55-6d2d8e3f0c11 /127.0.0.1 rdkafka
"""


def test_ids_hosts_and_the_order_of_rows_are_left_out() -> None:
    assert normalized(TOLD, "t-4") == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "CONSUMER-ID", "HOST", "CLIENT-ID"],
        ["mixed-of-TOPIC", "TOPIC", "0", "10", "MEMBER", "HOST", "rdkafka"],
        ["mixed-of-TOPIC", "TOPIC", "1", "10", "MEMBER", "HOST", "rdkafka"],
    ]


def test_a_list_leaves_out_the_groups_of_other_judges() -> None:
    told = "GROUP STATE\nmixed-of-t-4 Stable\nmixed-of-t-3 Stable\n223797467524235386 Empty"
    assert own_groups(normalized(told, "t-4")) == [["GROUP", "STATE"], ["mixed-of-TOPIC", "Stable"]]


def test_a_coordinator_is_left_out_and_a_state_is_not() -> None:
    told = "empty-of-t-4 127.0.0.1:9092 (0)  uniform  Empty  0"
    assert normalized(told, "t-4") == [["empty-of-TOPIC", "COORDINATOR", "uniform", "Empty", "0"]]


def test_a_difference_without_a_reason_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, object]] = []

    def record(name: str, value: object) -> None:
        told.append((name, value))

    theirs: dict[str, Any] = {"a": 1, "b": 2}
    compare("judge", theirs, dict(theirs), record)
    assert told == []
    with pytest.raises(AssertionError, match="no reason"):
        compare("judge", theirs, {"a": 1, "b": 3}, record)
    monkeypatch.setattr("tests.compat.group_judges.comparison.KNOWN", {"judge: b": "as it must be"})
    compare("judge", theirs, {"a": 1, "b": 3}, record)
    assert told == [("differs", "judge: b: not explained"), ("differs", "judge: b: as it must be")]


def test_each_test_of_librdkafka_that_has_run_is_a_fact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = (
        '{"tests": {"<MAIN>": {"state": "PASSED"}, "0012_other": {"state": "SKIPPED"}, "0018_a": {"state": "PASSED"}, '
        '"0018_b": {"state": "PASSED"}, "0018_mock": {"state": "SKIPPED"}}}'
    )
    said = "echo '[ one:1: PASS (0.1s) ]'; echo '[ two:2: SKIP: no ]'; echo '[ three:3: of $TESTS: PASS (0.2s) ]'"
    _checkout(monkeypatch, tmp_path, "librdkafka/tests/test-runner", f"{said}; echo '{report}' > $TEST_REPORT")
    assert librdkafka(_NOWHERE, "0018") == {"0018_a": "PASSED", "0018_b": "PASSED", "passed subtests": 2}
    with pytest.raises(PeerError, match="no test 0012"):
        librdkafka(_NOWHERE, "0012")


def test_a_word_after_the_number_selects_subtests_of_librdkafka(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = 'echo "{\\"tests\\": {\\"$TESTS $SUBTESTS\\": {\\"state\\": \\"PASSED\\"}}}" > $TEST_REPORT'
    _checkout(monkeypatch, tmp_path, "librdkafka/tests/test-runner", said)
    assert librdkafka(_NOWHERE, "0081 Group") == {"0081 Group": "PASSED", "passed subtests": 0}


def test_each_test_of_confluent_kafka_is_a_fact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cases = '<testcase name="a"/><testcase name="b"><skipped/></testcase>'
    said = f"echo '<testsuites><testsuite>{cases}</testsuite></testsuites>' > ${{4#--junitxml=}}"
    _checkout(monkeypatch, tmp_path, "confluent-kafka-python/.venv/bin/python", said)
    assert confluent(_NOWHERE) == {"a": "passed", "b": "skipped"}


def test_a_suite_that_fails_has_no_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = 'echo Test 0018 timed out; echo "{}" > $TEST_REPORT; exit 1'
    _checkout(monkeypatch, tmp_path, "librdkafka/tests/test-runner", said)
    with pytest.raises(PeerError, match="0018 timed out"):
        librdkafka(_NOWHERE, "0018")


def test_a_suite_that_takes_too_long_has_no_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.compat.group_judges.suites.LIMIT_S", 0.5)
    _checkout(monkeypatch, tmp_path, "librdkafka/tests/test-runner", "echo waiting; exec sleep 60")
    with pytest.raises(PeerError, match=r"has not ended in 0\.5 s:\nwaiting"):
        librdkafka(_NOWHERE, "0018")


_NOWHERE = Place("localhost:1", None)  # type: ignore[arg-type]  # these suites create their topics themselves


def _checkout(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str, script: str) -> None:
    """A folder of checkouts with this program, which is a script."""
    path = folder / program
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv(CHECKOUTS, str(folder))
