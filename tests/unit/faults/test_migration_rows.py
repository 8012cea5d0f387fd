"""What the row of migrations promises of its members, and what a run of it lacks to count."""

from __future__ import annotations

from collections import Counter

from tests.faults.migrations.checker import MigrationFindings
from tests.faults.migrations.fleet import BY_HAND
from tests.faults.migrations.nemesis import HARM
from tests.faults.migrations.rows import CHANGING, LIBRDKAFKA, MIXED, MUTANT_ROWS, ROW
from tests.faults.migrations.run import MigrationResult, missed_floors


def test_every_round_has_members_of_all_libraries_and_of_both_protocols() -> None:
    always = [role for role in ROW.roles if role.client != BY_HAND]
    assert len(always) >= 8
    assert len({role.client for role in always}) >= 3
    mixed = {role.protocol for role in always if role.group == MIXED}
    assert mixed == {"classic", "consumer"}, "whatever the other group has"
    assert all(role.migrates for role in always if role.group == CHANGING)
    assert any(role.client == BY_HAND for role in ROW.roles)


def test_roles_are_told_apart() -> None:
    for row in (ROW, *MUTANT_ROWS):
        assert max(Counter(row.roles).values()) == 1
    assert [role.number for role in ROW.roles if (role.group, role.client) == (CHANGING, LIBRDKAFKA)] == [0, 1]


def test_coordinators_brokers_and_members_are_hit() -> None:
    kinds = " ".join(HARM)
    assert all(
        f"{what} {how}" in kinds for what in ("coordinator", "broker", "member") for how in ("killed", "stopped")
    )


def test_a_run_that_did_too_little_does_not_count() -> None:
    enough = MigrationFindings(rebalances=5000, commits=9000, old_commits=200, reads=50_000)
    result = MigrationResult(ROW, kills=200, migrations=20, findings=enough)
    assert missed_floors(result) == []
    result.kills, result.migrations = 199, 19
    assert missed_floors(result) == ["kills: 199, the floor is 200", "migrations: 19, the floor is 20"]


def test_a_mutant_is_caught_by_what_it_breaks_alone() -> None:
    [row] = [row for row in MUTANT_ROWS if row.name == "commit-in-any-epoch"]
    result = MigrationResult(row, failures=["a broker is not ready"])
    result.findings.add("unsettled", "a group")
    assert not result.caught
    result.findings.add("old_epoch_commits", "a commit")
    assert result.caught
