"""What makes a row fail beside a finding: a goal that was missed, a floor that was not reached."""

from __future__ import annotations

from collections import Counter

from tests.faults.checker import Findings
from tests.faults.disks.mutants import DISK_MUTANTS
from tests.faults.history import Operation
from tests.faults.hostile.row import MUTANT as HOSTILE_MUTANT
from tests.faults.mutant_rows import MUTANT_ROWS
from tests.faults.mutants import MUTANTS
from tests.faults.row_run import RowResult, counted, missed_floors, missed_goals
from tests.faults.rows import GOALS, ROWS, Row

ROW = Row("F0", "nothing", lambda nemesis, until_at: None, 1.0, 1000, 10, least_leader_kills=5)


def test_gaps_within_their_goals_miss_nothing() -> None:
    assert missed_goals({"kill": [0.5] * 30 + [4.9], "of no goal": [100.0]}) == []


def test_the_median_and_the_99th_percentile_have_goals() -> None:
    assert missed_goals({"kill": [2.1, 2.1, 2.1]}) == ["kill: p50 is 2.10 s, the goal 2 s"]
    assert missed_goals({"kill": [1.0, 1.0, 5.5]}) == ["kill: p99 is 5.50 s, the goal 5 s"]


def test_every_goal_is_of_the_issue_or_longer_than_its_fault() -> None:
    assert GOALS["kill"].p50_s == 2.0
    assert GOALS["kill"].p99_s == 5.0
    assert GOALS["stop"].p99_s == GOALS["cut from everything"].p99_s == 9.0
    assert GOALS["controlled shutdown"].p99_s == 0.5


def test_floors_are_of_the_whole_time_and_less_of_less() -> None:
    did = RowResult(ROW, findings=Findings(acknowledged=500), hits=5, kills=2)
    assert missed_floors(did, 0.5) == []
    assert missed_floors(did, 1.0) == [
        "acknowledged: 500, the floor is 1000",
        "hits: 5, the floor is 10",
        "leader kills: 2, the floor is 5",
    ]


def test_every_row_of_the_issue_is_there_and_asks_for_something() -> None:
    assert [row.name for row in ROWS] == ["F1", "F2", "F5", "F6", "F7", "F8", "F9", "F17"]
    assert all(row.least_acknowledged and row.least_hits for row in ROWS)


def test_every_mutant_has_its_fault() -> None:
    of_disks = [mutant.name for mutant in DISK_MUTANTS if mutant.processes]
    assert [*(row.name for row in MUTANT_ROWS), HOSTILE_MUTANT, *of_disks] == list(MUTANTS)


def test_caught_is_what_is_wrong_not_what_is_slow() -> None:
    result = RowResult(ROW, failures=["kill: p50 is 2.10 s, the goal 2 s"])
    assert not result.caught
    result.findings.add("lost", "w0.0.1")
    assert result.caught


def test_what_librdkafka_was_handed_and_told_is_counted_apart() -> None:
    operations: list[Operation] = [
        {"f": "send", "type": "invoke", "count": 5},
        {"f": "send", "type": "ok", "count": 3, "offset": 0},
        {"f": "send", "type": "info", "count": 2, "error": "timed out"},
        {"f": "poll", "type": "ok", "offset": 0, "values": [["w0", 0, 2], ["librdkafka-w0", 0, 1]]},
        {"f": "poll", "type": "info", "error": "all brokers are down"},
    ]
    total = sum((counted(operation) for operation in operations), Counter())
    assert total == {"acknowledged": 3, "read": 3, "errors": 3}
