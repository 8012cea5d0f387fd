"""The checker of groups' histories: a clean one passes, and each kind of error is found where it is planted."""

from __future__ import annotations

import pytest
from tests.faults.groups.checker import GroupFindings, check
from tests.faults.history import Operation

G = "g"


def asked(
    at: int, number: int, value: int, *, generation: int | None = 1, process: str = "m0", partition: int = 0
) -> Operation:
    return _operation("invoke", "commit", at, process) | {
        "id": number,
        "group": G,
        "member": "a",
        "generation": generation,
        "offsets": {str(partition): value},
    }


def answered(at: int, number: int, type_: str = "ok", *, process: str = "m0") -> Operation:
    return _operation(type_, "commit", at, process) | {"id": number, "group": G}


def committed(at: int, number: int, value: int, *, generation: int | None = 1, process: str = "m0") -> list[Operation]:
    """Asked for at `at` and answered one later."""
    return [
        asked(at, number, value, generation=generation, process=process),
        answered(at + 1, number, process=process),
    ]


def fetched(at: int, value: int, *, process: str = "m1") -> Operation:
    """Asked for at `at` and answered one later."""
    return _operation("ok", "fetch", at + 1, process) | {"group": G, "asked_ns": at, "offsets": {"0": value}}


def given(at: int, generation: int, owner: str, *partitions: int) -> Operation:
    return _operation("ok", "sync", at, "m0") | {
        "group": G,
        "owner": owner,
        "generation": generation,
        "partitions": list(partitions),
    }


def _operation(type_: str, f: str, at: int, process: str) -> Operation:
    return {"process": process, "type": type_, "f": f, "mono_ns": at}


def found(findings: GroupFindings) -> dict[str, int]:
    return {kind: count for kind, count in findings.counts.items() if count}


CLEAN = [
    given(1, 1, "a", 0, 1),
    fetched(2, -1),
    *committed(10, 1, 100),
    fetched(20, 100),
    *committed(30, 2, 200),
    fetched(40, 200),
    given(50, 2, "a", 0),
    given(51, 2, "b", 1),
    *committed(60, 3, 300, generation=2),
    fetched(70, 300),
]


def test_a_clean_history_is_clean_and_counted() -> None:
    findings = check(CLEAN)
    assert findings.clean
    assert (findings.commits, findings.fetches, findings.rebalances, findings.refused) == (3, 4, 2, 0)


# ---- stale fetches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [100, 200, -1])
def test_a_fetch_of_what_was_overwritten_before_it_was_asked_is_stale(value: int) -> None:
    assert found(check([*CLEAN, fetched(80, value)])) == {"stale_fetches": 1}


def test_a_fetch_that_overlaps_a_commit_may_see_either() -> None:
    history = [*committed(10, 1, 100), asked(20, 2, 200), fetched(21, 100), fetched(23, 200), answered(30, 2)]
    assert check(history).clean


def test_a_commit_that_is_answered_while_a_fetch_is_under_way_may_be_missed_by_it() -> None:
    fetch = fetched(22, 100) | {"mono_ns": 30}
    assert check([*committed(10, 1, 100), asked(20, 2, 200), answered(25, 2), fetch]).clean


def test_what_one_fetch_has_seen_no_later_one_may_miss() -> None:
    """The commit is not answered yet, or never is; but it has taken effect."""
    history = [*committed(10, 1, 100), asked(20, 2, 200), fetched(21, 200), fetched(30, 100)]
    assert found(check([*history, answered(40, 2, "info")])) == {"stale_fetches": 1}


def test_a_commit_without_an_answer_may_take_effect_late() -> None:
    history = [asked(10, 1, 100), answered(15, 1, "info"), *committed(20, 2, 200), fetched(30, 100)]
    assert check(history).clean


def test_but_not_once_a_later_generation_has_its_partitions() -> None:
    history = [asked(10, 1, 100), answered(15, 1, "info"), given(18, 2, "b", 0)]
    history += [*committed(20, 2, 200, generation=2), fetched(30, 100)]
    assert found(check(history)) == {"stale_fetches": 1}


def test_of_two_commits_at_one_time_either_may_be_the_last() -> None:
    history = [asked(10, 1, 100), asked(11, 1, 200, process="m2"), answered(20, 1), answered(21, 1, process="m2")]
    assert check([*history, fetched(30, 100)]).clean
    assert check([*history, fetched(30, 200)]).clean


def test_partitions_are_apart() -> None:
    history = [*committed(10, 1, 100), asked(20, 2, 200, partition=1), answered(21, 2), fetched(30, 100)]
    assert check(history).clean


# ---- what else ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "history",
    [
        [fetched(30, 55)],
        [asked(10, 1, 100), answered(11, 1, "fail"), fetched(30, 100)],
        [fetched(5, 100), *committed(10, 1, 100)],
    ],
    ids=["nobody's", "refused", "before its time"],
)
def test_a_fetch_of_what_was_not_committed_is_unfounded(history: list[Operation]) -> None:
    assert found(check(history)) == {"unfounded_fetches": 1}


def test_a_commit_that_is_taken_after_a_later_generation_began_is_found() -> None:
    assert found(check([*CLEAN, *committed(80, 9, 900)])) == {"old_generation_commits": 1}


def test_so_is_one_without_an_answer_that_is_fetched() -> None:
    history = [*CLEAN, asked(80, 9, 900), answered(85, 9, "info"), fetched(90, 900)]
    assert found(check(history)) == {"old_generation_commits": 1}


def test_an_old_commit_that_is_refused_or_was_under_way_is_as_it_must_be() -> None:
    assert check([*CLEAN, asked(80, 9, 900), answered(81, 9, "fail")]).clean
    assert check([*CLEAN, asked(80, 9, 900), answered(85, 9, "info")]).clean
    assert check([given(1, 1, "a", 0), asked(10, 1, 100), given(12, 2, "b", 0), answered(15, 1)]).clean


def test_two_owners_in_one_generation_are_found() -> None:
    assert found(check([*CLEAN, given(80, 2, "c", 1, 2)])) == {"double_owners": 1}
    assert check([*CLEAN, given(80, 3, "c", 1, 2)]).clean
    assert check([*CLEAN, given(80, 2, "b", 1)]).clean


@pytest.mark.parametrize(("f", "kind"), [("kicked", "kicked"), ("surprise", "surprises"), ("unsettled", "unsettled")])
def test_what_a_member_was_told_is_found(f: str, kind: str) -> None:
    told = _operation("info", f, 80, "m0") | {"group": G, "error": "words"}
    findings = check([*CLEAN, told])
    assert found(findings) == {kind: 1}
    assert "words" in findings.examples[0]
