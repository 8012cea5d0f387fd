"""The checker of the fault runs: a clean history passes, and each kind of error is found where it is planted."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.faults.checker import KINDS, Findings, check
from tests.faults.history import Name, Operation, RecordRead, key_of, parse_key, polled, value_of


def invoke(first: int, count: int, *, writer: str = "w0", partition: int = 0) -> Operation:
    return _send("invoke", writer, partition, first, count)


def ok(first: int, count: int, offset: int, *, writer: str = "w0", partition: int = 0) -> Operation:
    return _send("ok", writer, partition, first, count) | {"offset": offset}


def fail(first: int, count: int) -> Operation:
    return _send("fail", "w0", 0, first, count) | {"error": "too large"}


def info(first: int, count: int) -> Operation:
    return _send("info", "w0", 0, first, count) | {"error": "timed out"}


def _send(type_: str, writer: str, partition: int, first: int, count: int) -> Operation:
    return {"process": writer, "type": type_, "f": "send", "partition": partition, "first": first, "count": count}


def poll(
    offset: int, *runs: tuple[int, int] | tuple[int, int, str], reader: str = "final-0", partition: int = 0
) -> Operation:
    """Runs are (first, count), of w0 unless a writer is given."""
    values = [[run[2] if len(run) == 3 else "w0", run[0], run[1]] for run in runs]
    return {
        "process": reader,
        "type": "ok",
        "f": "poll",
        "partition": partition,
        "offset": offset,
        "values": values,
    }


def found(findings: Findings) -> dict[str, int]:
    return {kind: count for kind, count in findings.counts.items() if count}


CLEAN = [
    invoke(0, 10),
    ok(0, 5, 0),
    invoke(0, 3, writer="w1"),
    ok(0, 3, 5, writer="w1"),
    ok(5, 5, 8),
    poll(0, (0, 5), reader="r0"),
    poll(5, (0, 3, "w1"), (5, 5), reader="r0"),
    poll(0, (0, 5), (0, 3, "w1"), (5, 5)),
]


def test_a_clean_history_has_no_findings() -> None:
    findings = check(CLEAN)
    assert found(findings) == {}
    assert findings.clean
    assert (findings.acknowledged, findings.unknown, findings.failed, findings.read) == (13, 0, 0, 26)
    assert findings.operations == 13 + 26


def test_what_is_unknown_may_be_there_or_not() -> None:
    history = [invoke(0, 4), ok(0, 1, 0), info(1, 1), info(2, 1), poll(0, (0, 1), (2, 1))]
    findings = check(history)
    assert found(findings) == {}
    assert findings.unknown == 3  # two that were given up, and one that nobody heard of again
    assert findings.client_errors == {("w0", "timed out"): 2}


def test_an_acknowledged_repeat_without_an_offset_is_somewhere() -> None:
    assert found(check([invoke(0, 2), ok(0, 2, -1), poll(0, (0, 2))])) == {}
    assert found(check([invoke(0, 2), ok(0, 2, -1), poll(0, (0, 1))])) == {"lost": 1}


def test_a_definite_failure_that_is_not_there_is_right() -> None:
    findings = check([invoke(0, 2), ok(0, 1, 0), fail(1, 1), poll(0, (0, 1))])
    assert found(findings) == {}
    assert (findings.failed, findings.unknown) == (1, 0)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([invoke(0, 2), ok(0, 2, 0), poll(0, (0, 1))], {"lost": 1}, id="lost at the end"),
        pytest.param(
            [invoke(0, 3), ok(0, 3, 0), poll(0, (0, 1)), poll(2, (2, 1))],
            {"lost": 1, "skipped": 1},
            id="lost in the middle",
        ),
        pytest.param([invoke(0, 2), ok(0, 2, 0)], {"lost": 2}, id="nothing was read at all"),
        pytest.param(
            [invoke(0, 2), ok(0, 2, 0), poll(0, (0, 2), reader="r0"), poll(0, (0, 1))],
            {"lost": 1, "inconsistent": 1},
            id="read once, gone in the end",
        ),
        pytest.param([invoke(0, 2), ok(0, 2, 0), poll(0, (0, 2), (1, 1))], {"duplicated": 1}, id="duplicated"),
        pytest.param(
            [invoke(0, 2), info(0, 2), poll(0, (0, 2), (0, 2))], {"duplicated": 2}, id="duplicated, never acknowledged"
        ),
        pytest.param(
            [invoke(0, 2), ok(0, 1, 0), ok(1, 1, 1), poll(0, (0, 1), (1, 1)), poll(0, (1, 1), (0, 1), reader="r0")],
            {"inconsistent": 2},
            id="two readers disagree",
        ),
        pytest.param(
            [invoke(0, 2), ok(0, 2, 0), invoke(0, 1, writer="w1"), ok(0, 1, 1, writer="w1"), poll(0, (0, 2))],
            {"inconsistent": 1, "lost": 1},
            id="two acknowledgements of one offset",
        ),
        pytest.param(
            [invoke(0, 2), ok(0, 1, 0), ok(1, 1, 5), poll(0, (0, 2))], {"inconsistent": 1}, id="acknowledged elsewhere"
        ),
        pytest.param(
            [invoke(0, 3), ok(0, 1, 0), ok(2, 1, 1), ok(1, 1, 2), poll(0, (0, 1), (2, 1), (1, 1))],
            {"reordered": 1},
            id="reordered",
        ),
        pytest.param(
            [invoke(0, 2), ok(0, 2, 0), poll(0, (0, 2), reader="r0"), poll(1, (1, 1), reader="r0"), poll(0, (0, 2))],
            {"nonmonotonic": 1},
            id="read again",
        ),
        pytest.param(
            [invoke(0, 3), ok(0, 3, 0), poll(0, (0, 1), reader="r0"), poll(2, (2, 1), reader="r0"), poll(0, (0, 3))],
            {"skipped": 1},
            id="passed over",
        ),
        pytest.param([invoke(0, 1), ok(0, 1, 0), poll(1, (0, 1))], {"skipped": 1, "inconsistent": 1}, id="moved"),
        pytest.param([invoke(0, 2), ok(0, 1, 0), fail(1, 1), poll(0, (0, 2))], {"failed_read": 1}, id="failed read"),
        pytest.param([invoke(0, 1), ok(0, 1, 0), poll(0, (0, 2))], {"corrupted": 1}, id="never sent"),
    ],
)
def test_each_kind_of_error_is_found(history: list[Operation], expected: dict[str, int]) -> None:
    findings = check(history)
    assert found(findings) == expected
    assert not findings.clean
    assert set(findings.examples) == set(expected)


def test_a_value_that_its_key_does_not_promise_is_corrupted() -> None:
    records = [
        RecordRead(0, 0, key_of(Name("w0", 0, 0)), value_of(b"w0.0.0")),
        RecordRead(0, 1, key_of(Name("w0", 0, 1)), b"torn"),
        RecordRead(0, 2, key_of(Name("w0", 1, 2)), value_of(b"w0.1.2")),  # of another partition
        RecordRead(0, 3, b"stranger", None),
        RecordRead(0, 4, key_of(Name("w0", 0, 4)), value_of(b"w0.0.4")),
    ]
    reads = [{"process": "final-0", "type": "ok", "f": "poll", **fields} for fields in polled(records)]
    findings = check([invoke(0, 5), ok(0, 1, 0), ok(4, 1, 4), *reads])
    assert found(findings) == {"corrupted": 3}
    assert "torn" in findings.examples["corrupted"][0]


def test_records_are_noted_as_runs() -> None:
    def right(writer: str, number: int, offset: int) -> RecordRead:
        key = key_of(Name(writer, 3, number))
        return RecordRead(3, offset, key, value_of(key))

    reads = list(polled([right("w0", 7, 10), right("w0", 8, 11), right("w1", 0, 12), right("w0", 9, 14)]))
    assert reads == [
        {"partition": 3, "offset": 10, "values": [["w0", 7, 2], ["w1", 0, 1]]},
        {"partition": 3, "offset": 14, "values": [["w0", 9, 1]]},
    ]
    assert parse_key(b"w0.3.7") == Name("w0", 3, 7)
    assert parse_key(b"\xff.1") is None


def test_examples_are_few_and_counts_are_not() -> None:
    findings = check([invoke(0, 1000), ok(0, 1000, 0)])
    assert findings.counts["lost"] == 1000
    assert len(findings.examples["lost"]) == 10
    assert set(findings.counts) == set(KINDS)


def test_two_million_operations_take_seconds() -> None:
    """1,000,000 values of two writers in six partitions, in batches of 20, acknowledged and read."""

    def history() -> Iterator[Operation]:
        for partition in range(6):
            for batch in range(8_500):
                writer, first, offset = f"w{batch % 2}", batch // 2 * 20, batch * 20
                yield invoke(first, 20, writer=writer, partition=partition)
                yield ok(first, 20, offset, writer=writer, partition=partition)
                yield poll(offset, (first, 20, writer), partition=partition)

    began = time.process_time()
    findings = check(history())
    assert findings.clean
    assert findings.operations > 2_000_000
    assert time.process_time() - began < 30
