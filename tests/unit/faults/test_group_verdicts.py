"""What makes a row of groups fail beside a finding: groups that waited too long, and floors that were not reached."""

from __future__ import annotations

import pytest
from tests.faults.gaps import SECOND_NS, Hit
from tests.faults.groups.checker import GroupFindings
from tests.faults.groups.mutants import MUTANTS
from tests.faults.groups.rows import GOALS_S, GROUP_ROWS, MUTANT_GROUP_ROWS, GroupRow
from tests.faults.groups.run import GroupResult, missed_group_floors, missed_takeovers
from tests.faults.groups.takeovers import NEVER_S, Takeovers
from tests.faults.history import Operation
from tests.faults.starved.run import MUTANT

ROW = GroupRow("F0", "nothing", lambda nemesis, until_at: None, 1.0, (), {"kills": 10, "rebalances": 100})


def commit(number: int, asked_s: float, answered_s: float, group: str = "g") -> list[Operation]:
    call = {"process": "m0", "f": "commit", "id": number, "group": group}
    return [
        call | {"type": "invoke", "mono_ns": int(asked_s * SECOND_NS)},
        call | {"type": "ok", "mono_ns": int(answered_s * SECOND_NS)},
    ]


def seconds(operations: list[Operation], *hits: Hit) -> dict[str, list[float]]:
    takeovers = Takeovers({"g": 3, "h": 4})
    for operation in operations:
        takeovers.on_operation(operation)
    return dict(takeovers.seconds(hits))


def hit(at_s: float, *shards: int) -> Hit:
    return Hit("killed", "coordinator-0", int(at_s * SECOND_NS), 0, shards)


def test_a_takeover_ends_with_the_first_answer_to_a_commit_that_was_sent_after_the_hit() -> None:
    """An answer to what was sent before it may have been on its way already."""
    history = [*commit(1, 9.9, 10.1), *commit(2, 10.2, 13.0), *commit(3, 12.0, 12.5)]
    assert seconds(history, hit(10.0, 3)) == {"killed": [pytest.approx(2.5)]}


def test_a_shard_that_never_comes_back_is_not_left_out() -> None:
    assert seconds(commit(1, 1.0, 1.1), hit(10.0, 3)) == {"killed": [NEVER_S]}
    assert missed_takeovers({"coordinator killed": [0.1, NEVER_S]})


def test_shards_without_groups_and_shards_that_were_not_hit_say_nothing() -> None:
    history = [*commit(1, 10.0, 10.5), *commit(2, 20.0, 29.0, "h")]
    assert seconds(history, hit(10.0, 3, 7)) == {"killed": [pytest.approx(0.5)]}


def test_the_99th_percentile_has_a_goal() -> None:
    assert missed_takeovers({"coordinator killed": [4.9], "of no goal": [100.0]}) == []
    assert missed_takeovers({"coordinator killed": [0.1, 5.5]}) == ["coordinator killed: p99 is 5.50 s, the goal 5 s"]
    assert GOALS_S["coordinator killed"] == 5.0
    assert GOALS_S["coordinator stopped"] == 9.0


def test_floors_are_of_the_whole_time_and_less_of_less() -> None:
    did = GroupResult(ROW, findings=GroupFindings(rebalances=50), kills=5)
    assert missed_group_floors(did, 0.5) == []
    assert missed_group_floors(did, 1.0) == ["kills: 5, the floor is 10", "rebalances: 50, the floor is 100"]


def test_every_row_of_groups_is_there_and_asks_for_something() -> None:
    assert [row.name for row in GROUP_ROWS] == ["F10", "F16", "F18"]
    assert all(row.least["kills"] and row.least["commits"] and row.least["fetches"] for row in GROUP_ROWS)


def test_fifty_members_storm() -> None:
    [storm] = [row for row in GROUP_ROWS if row.name == "F18"]
    assert sum(members.number for members in storm.members if members.groups == ("storm",)) == 50


def test_every_mutant_has_its_fault_and_its_row() -> None:
    assert ["none", *(row.name for row in MUTANT_GROUP_ROWS), MUTANT] == list(MUTANTS)
    assert {row.title for row in MUTANT_GROUP_ROWS} == {row.name for row in GROUP_ROWS}


def test_caught_is_what_is_wrong_not_what_is_slow() -> None:
    result = GroupResult(ROW, failures=["coordinator killed: p99 is 5.50 s, the goal 5 s"])
    assert not result.caught
    result.findings.add("stale_fetches", "m0 was told 1")
    assert result.caught
