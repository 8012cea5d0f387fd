"""The checker of transactions' histories: a clean one passes, and each kind of error is found where it is planted."""

from __future__ import annotations

import pytest
from tests.faults.history import Operation
from tests.faults.transactions.checker import COMMITTED, KINDS, UNCOMMITTED, TransactionFindings, check
from tests.faults.transactions.failpoints import STEPS
from tests.faults.transactions.mutants import MUTANTS
from tests.faults.transactions.rows import MUTANT_ROWS

A, B = ["a", 0], ["b", 1]


def operation(process: str, type_: str, f: str, now: int = 0, **fields: object) -> Operation:
    return {"process": process, "type": type_, "f": f, "mono_ns": now, **fields}


def written(tag: str, outcome: str, *, taken: int = -1, at: int = 10, process: str = "sdk-0") -> list[Operation]:
    return [
        operation(process, "invoke", "txn", at, tag=tag, id="sdk.0", partitions=[A, B], at=taken),
        operation(process, "invoke", "end", at + 1, tag=tag),
        operation(process, outcome, "txn", at + 2, tag=tag),
    ]


def read(*tags: str, process: str = COMMITTED, partitions: tuple[list[object], ...] = (A, B)) -> list[Operation]:
    return [operation(process, "ok", "poll", partition=partition, tags=tags) for partition in partitions]


def offset(number: int) -> list[Operation]:
    return [operation("run", "ok", "offsets", id="sdk.0", offset=number)]


def begun(process: str, at: int) -> list[Operation]:
    return [operation(process, "ok", "init", at, id="sdk.0")]


def kinds(found: TransactionFindings) -> set[str]:
    return {kind for kind, count in found.counts.items() if count}


CLEAN = [
    *begun("sdk-0", 1),
    *written("1", "ok", taken=0),
    *written("2", "fail", taken=1),
    *written("3", "info"),
    *written("4", "info", taken=1),
    *read("1", "4", process="reader-0"),
    *read("1", "2", "4", process=UNCOMMITTED),
    *read("1", "4"),
    *offset(2),
]


def test_what_is_whole_or_absent_once_passes() -> None:
    found = check(CLEAN)
    assert found.clean, found.examples
    assert (found.by_client, found.unknown, found.read) == ({"sdk": 2}, 2, 2)


@pytest.mark.parametrize(
    ("history", "kind"),
    [
        ([*written("1", "ok"), *read("1", partitions=(A,))], "torn"),
        ([*written("1", "fail"), *read("1")], "aborted_reads"),
        ([*written("1", "ok"), *read("1", "1")], "duplicates"),
        ([*written("1", "fail"), *read("1", "1", process=UNCOMMITTED)], "duplicates"),
        ([operation("run", "ok", "hanging", what="a-0")], "hanging"),
        (written("1", "ok"), "lost"),
        ([*written("1", "ok", taken=0), *read("1"), *offset(0)], "offsets"),
        ([*written("1", "ok"), *read("1"), *offset(1)], "offsets"),
        ([*written("1", "ok", taken=0), *written("2", "ok", taken=0), *read("1", "2"), *offset(1)], "offsets"),
        ([*begun("sdk-0", 1), *begun("sdk-1", 5), *written("1", "info"), *read("1")], "zombies"),
        ([*written("1", "info"), *read("1", process="reader-0")], "went_back"),
        ([*written("1", "ok"), *read("1"), *read("1", process="pass-1"), *read(process="pass-2")], "went_back"),
        (read("1"), "unknown"),
    ],
)
def test_each_error_is_found(history: list[Operation], kind: str) -> None:
    assert kinds(check(history)) == {kind}
    assert kind in KINDS


def test_whoever_has_the_id_again_is_no_zombie() -> None:
    history = [*begun("sdk-1", 1), *begun("sdk-0", 5), *written("1", "ok"), *read("1")]
    assert check(history).clean


def test_each_mutant_has_its_fault() -> None:
    assert {row.name for row in MUTANT_ROWS} == MUTANTS.keys() - {"none"}
    assert len(MUTANT_ROWS) == 7


def test_every_step_is_of_one_kind_of_service() -> None:
    steps = [step for of_kind in STEPS.values() for step in of_kind]
    assert len(steps) == len(set(steps)) == 29
