"""The checker of migrations: a clean history passes, and each kind of mistake is found where it is planted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.faults.history import Operation
from tests.faults.migrations.checker import check

G = "g"
SECOND = 1_000_000_000
SESSION_S = 10.0


def op(at: int, f: str, member: str = "a", type_: str = "info", **fields: Any) -> Operation:
    return {"process": member, "type": type_, "f": f, "mono_ns": at, "group": G, "member": member, **fields}


def assigned(at: int, member: str, *partitions: int) -> Operation:
    return op(at, "assigned", member, partitions=list(partitions))


def revoked(at: int, member: str, *partitions: int) -> Operation:
    return op(at, "revoked", member, partitions=list(partitions))


def lost(at: int, member: str, *partitions: int) -> Operation:
    return op(at, "lost", member, partitions=list(partitions))


def committed(asked: int, at: int, member: str, type_: str = "ok", error: str = "") -> Operation:
    return op(at, "commit", member, type_, asked_ns=asked, error=error)


def written(at: int, value: str) -> Operation:
    return op(at, "written", "writer", "ok", value=value)


def read(at: int, member: str, *values: str) -> Operation:
    return op(at, "read", member, values=list(values))


def found(*operations: Operation) -> dict[str, int]:
    return {kind: count for kind, count in check(operations, [G], SESSION_S).counts.items() if count}


MOVES = (
    assigned(1, "a", 0, 1),
    committed(5, 6, "a"),
    revoked(10, "a", 1),
    assigned(12, "b", 1),
    committed(20, 21, "b"),
)


def test_a_clean_history_passes() -> None:
    assert found(*MOVES, written(2, "x"), read(3, "a", "x")) == {}


def test_what_was_done_is_counted() -> None:
    findings = check((*MOVES, committed(30, 31, "b", "fail")), [G], SESSION_S)
    assert (findings.rebalances, findings.commits, findings.refused) == (2, 2, 1)


def test_operations_may_come_in_any_order() -> None:
    assert found(*reversed(MOVES)) == {}


def test_two_owners_at_one_time() -> None:
    assert found(assigned(1, "a", 0), assigned(5, "b", 0), revoked(6, "a", 0)) == {"double_owners": 1}


@pytest.mark.parametrize("end", ["killed", "closed"])
def test_who_has_ended_has_nothing(end: str) -> None:
    assert found(assigned(1, "a", 0), op(4, end), assigned(5, "b", 0)) == {}
    assert found(assigned(1, "a", 0), op(6, end), assigned(5, "b", 0)) == {"double_owners": 1}


def test_who_stands_still_may_be_overtaken() -> None:
    paused = [assigned(1, "a", 0), op(2, "paused"), assigned(5, "b", 0), lost(9, "a", 0)]
    assert found(*paused) == {}
    assert found(*paused, committed(8, 10, "a")) == {"old_epoch_commits": 1}
    assert found(*paused, committed(8, 10, "a", "fail")) == {}
    assert found(*paused, committed(4, 10, "a")) == {}, "it was made before another one had the partition"


def test_a_member_that_goes_on_may_take_what_an_old_response_gives_it() -> None:
    paused = [assigned(1, "b", 0), op(2, "paused"), assigned(5, "a", 0)]
    assert found(*paused, lost(6, "a"), revoked(9, "b", 0)) == {}
    assert found(*paused, committed(6, 7, "a"), revoked(9, "b", 0)) == {"double_owners": 1}
    assert found(*paused, lost(6, "a"), assigned(7, "a", 0), revoked(9, "b", 0)) == {"double_owners": 1}


def test_who_has_missed_its_session_learns_of_it_from_its_next_commit() -> None:
    starved = [assigned(1, "a", 0), assigned(5, "b", 0), lost(20, "a", 0)]
    told = committed(8, 9, "a", "fail", "UNKNOWN_MEMBER_ID")
    assert found(*starved, told) == {}
    assert found(*starved, committed(8, 9, "a", "fail", "a timeout")) == {"double_owners": 1}
    taken = committed(6, 7, "a")
    assert found(*starved, taken, told) == {"double_owners": 1, "old_epoch_commits": 1}


def test_who_was_heard_a_moment_ago_has_not_missed_its_session() -> None:
    told = committed(61 * SECOND, 62 * SECOND, "a", "fail", "UNKNOWN_MEMBER_ID")
    starved = [assigned(1, "a", 0), assigned(60 * SECOND, "b", 0), told, lost(63 * SECOND, "a", 0)]
    assert check([*starved, committed(54 * SECOND, 54 * SECOND, "a")], [G], SESSION_S).expelled == 1
    assert found(*starved, committed(54 * SECOND, 54 * SECOND, "a")) == {}
    assert found(*starved, committed(56 * SECOND, 56 * SECOND, "a")) == {"double_owners": 1}


def test_a_commit_of_an_old_epoch() -> None:
    old = {"partition": 0, "epoch": 3}
    assert found(op(5, "old_commit", "a", "fail", **old)) == {}
    assert found(op(5, "old_commit", "a", "ok", **old)) == {"old_epoch_commits": 1}


def test_a_record_that_nobody_in_the_group_has_read() -> None:
    other = read(3, "a", "x") | {"group": "other"}
    assert found(written(2, "x"), other) == {"lost": 1}
    assert found(written(2, "x"), other, read(4, "b", "x")) == {}


@pytest.mark.parametrize("kind", ["unsettled", "ended"])
def test_what_the_run_has_told(kind: str) -> None:
    assert found(op(5, kind, "a", error="the reason")) == {kind: 1}
