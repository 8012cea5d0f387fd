"""The verdict of restarts beside clients that write exactly once: each finding has its kind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.faults.restarts.checker import (
    RestartFindings,
    check_app,
    check_history,
    check_operations,
    check_query,
)
from tests.faults.restarts.content import APP_COPIES, APP_DEAD, APP_TARGET, QUERY_TARGET, is_poisoned
from tests.faults.restarts.readers import Waits
from tests.faults.spark.copy import PARTITIONS, key_of

PARTITION = ("t", 0)
POISONED = next(number for number in range(1_000) if is_poisoned(number))
ROWS = [b"%d.%d" % (partition, number) for partition in range(PARTITIONS) for number in range(POISONED + 1)]


def handled() -> dict[str, Counter[bytes]]:
    """Return what the App's topics hold when everything is right."""
    rows = Counter(row for row in ROWS if not row.endswith(b".%d" % POISONED))
    dead = Counter(row for row in ROWS if row.endswith(b".%d" % POISONED))
    return {APP_TARGET: rows.copy(), APP_COPIES: rows.copy(), APP_DEAD: dead}


def of_app(values: dict[str, Counter[bytes]]) -> dict[str, int]:
    findings = RestartFindings()
    check_app(values, POISONED + 1, findings)
    return dict(+findings.counts)


def of_history(*operations: dict[str, Any]) -> dict[str, int]:
    findings = RestartFindings()
    check_history(operations, findings)
    return dict(+findings.counts)


def test_what_the_app_has_handled_once_is_right() -> None:
    assert of_app(handled()) == {}


@pytest.mark.parametrize(
    ("topic", "row", "change", "kind"),
    [
        (APP_TARGET, b"0.1", -1, "torn"),
        (APP_COPIES, b"0.1", 1, "doubled"),
        (APP_TARGET, b"0.%d" % POISONED, 1, "torn"),
        (APP_DEAD, b"0.%d" % POISONED, -1, "lost"),
        (APP_DEAD, b"0.%d" % POISONED, 1, "doubled"),
        (APP_DEAD, b"0.1", 1, "doubled"),
    ],
)
def test_one_record_of_the_app_too_many_or_too_few_is_found(topic: str, row: bytes, change: int, kind: str) -> None:
    values = handled()
    values[topic][row] += change
    assert of_app(values) == {kind: 1}


def test_a_record_that_the_app_has_not_handled_is_lost() -> None:
    values = handled()
    del values[APP_TARGET][b"1.0"], values[APP_COPIES][b"1.0"]
    assert of_app(values) == {"lost": 1}


def test_rows_of_the_query_are_lost_doubled_or_foreign() -> None:
    rows: list[tuple[bytes | None, bytes | None]] = [
        (key_of(partition, number), b"%d.%d" % (partition, number))
        for partition in range(PARTITIONS)
        for number in range(20)
    ]
    findings = RestartFindings()
    check_query([*rows[1:], rows[-1], (b"k", b"not written")], 20, findings)
    assert +findings.counts == {"lost": 1, "doubled": 1, "torn": 1}


def test_many_rows_that_are_lost_at_once_leave_an_example() -> None:
    findings = RestartFindings()
    check_query([], 500, findings)
    assert (findings.counts["lost"], len(findings.examples), findings.clean) == (500 * PARTITIONS, 1, False)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ({"f": "listing", "type": "fail", "what": "groups", "missing": ["known-1"]}, "short_listings"),
        ({"f": "listing", "type": "info", "what": "groups", "error": "e"}, "false_failures"),
        ({"f": "hanging", "type": "ok", "partition": "t-0", "offset": 1}, "false_hangs"),
        ({"f": "failure", "type": "info", "error": "e", "process": "p"}, "false_failures"),
        ({"f": "transaction", "type": "info", "number": 2, "error": "e"}, "false_failures"),
        ({"f": "transaction", "type": "ok", "number": 2, "is_aborted": True}, "torn"),
        ({"f": "wait", "type": "ok", "topic": APP_TARGET, "wait_s": 31.0}, "waits"),
    ],
)
def test_what_clients_note_is_found(operation: dict[str, Any], kind: str) -> None:
    assert of_history(operation) == {kind: 1}


@pytest.mark.parametrize(
    "operation",
    [
        {"f": "listing", "type": "info", "what": "kafka", "error": "a broker is away"},
        {"f": "failure", "type": "fail", "error": "was already written", "process": "p"},
        {"f": "transaction", "type": "fail", "number": 2, "error": "fenced"},
        {"f": "wait", "type": "ok", "topic": APP_TARGET, "wait_s": 20.5},
    ],
)
def test_what_restarts_may_do_is_no_finding(operation: dict[str, Any]) -> None:
    assert of_history(operation) == {}


def test_readers_of_the_query_may_wait_while_it_writes_nothing() -> None:
    wait = {"f": "wait", "type": "ok", "topic": QUERY_TARGET, "wait_s": 60.0}
    batches = [{"f": "batch", "type": "ok", "mono_ns": int(second * 1e9)} for second in (0.0, 1.0, 55.0)]
    assert of_history(*batches, wait) == {}
    assert of_history(*batches[:2], wait) == {"waits": 1}


def test_a_transaction_of_the_administrator_is_whole_or_absent() -> None:
    findings = RestartFindings()
    operations = [
        {"f": "transaction", "type": kind, "number": number} for number, kind in enumerate(("ok", "fail", "ok", "fail"))
    ]
    values = Counter({b"0": PARTITIONS, b"1": PARTITIONS, b"9": PARTITIONS - 1})
    check_operations(values, operations, findings)
    assert +findings.counts == {"torn": 2, "lost": 1}


def test_a_wait_lasts_from_when_an_offset_is_seen_until_it_is_committed() -> None:
    waits = Waits()
    waits.on_seen(PARTITION, 5, 10.0)
    waits.on_seen(PARTITION, 8, 11.0)
    assert waits.on_committed(PARTITION, 4, 12.0) == 2.0
    assert waits.on_committed(PARTITION, 5, 13.0) == 3.0
    assert waits.on_committed(PARTITION, 8, 13.5) == 2.5
    assert waits.on_committed(PARTITION, 8, 60.0) == 0.0


def test_positions_that_follow_each_other_quickly_take_no_room() -> None:
    waits = Waits()
    for number in range(1_000):
        waits.on_seen(PARTITION, number, number / 1_000)
    assert len(waits._passed[PARTITION]) < 30
    assert waits.on_committed(PARTITION, 0, 1.0) == pytest.approx(1.0, abs=0.2)
