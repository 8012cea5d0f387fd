"""`ottla group`, over a fake Admin: what is shown, what is asked before, what becomes of the rest."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import FakeAdmin, Log, ottla, sit
from cli_groups import FakeGroup, FakeGroups, member

from ottla.admin.group_info import GroupEvent, OffsetReset, PartitionLag
from ottla.errors import ErrorCode, error_from_code
from ottla_cli import group_timeline
from ottla_cli.commands import group
from ottla_core.model import TopicPartition

pytestmark = pytest.mark.feature(160)

AT = int(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """billing has two members and is behind, audit is stopped, and idle has nothing."""
    admin = FakeAdmin(orders=[Log()] * 2)
    behind = PartitionLag("orders", 0, 10, 0, 14, 4, 42.88, AT, "m1", "app", "10.0.0.1")
    even = PartitionLag("orders", 1, None, 0, 5, None, None)
    billing = FakeGroup([member("m1", 0), member("m2", 1, instance="i2")], {}, [behind, even])
    audit = FakeGroup(committed={TopicPartition("orders", 0): 7, TopicPartition("refunds", 0): 2})
    fake = FakeGroups(admin, billing=billing, audit=audit, idle=FakeGroup())
    admin.groups = fake  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setattr(group, "open_admin", lambda settings: admin)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    return fake


def items(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# ---- look -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [("", ["audit", "billing", "idle"]), ("'b*'", ["billing"]), ("--state Empty", ["audit", "idle"]), ("x", [])],
)
def test_ls(arguments: str, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(f"group ls {arguments} -o name") == 0
    told = capsys.readouterr()
    assert told.out.split() == names
    assert ("there is no such group" in told.err) == (not names)


@pytest.mark.usefixtures("groups")
@pytest.mark.story("who-coordinates-a-group")
def test_ls_tells_who_coordinates_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("group ls billing -o jsonl") == 0
    (item,) = items(capsys)
    assert (item["name"], item["coordinator"], item["shard"]) == ("billing", 0, 1)
    assert ottla("group ls billing -o table") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert (head.split()[-1], row.split()[-1]) == ("COORDINATOR", "0")


@pytest.mark.usefixtures("groups")
@pytest.mark.story("who-coordinates-a-group")
def test_show_tells_lag_in_records_and_in_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("group show billing -o json") == 0
    told = json.loads(capsys.readouterr().out)
    (item,) = told["items"]
    partitions = item.pop("partitions")
    assert told["kind"] == "group-lag/v1"
    owner = {"coordinator": 0, "shard": 1}
    assert item == {"name": "billing", "state": "Stable", "members": 2, "records": 4, "seconds": 42.88} | owner
    assert (partitions[0]["committed"], partitions[0]["oldest_unread_ms"], partitions[0]["member"]) == (10, AT, "m1")
    assert (partitions[1]["committed"], partitions[1]["records"], partitions[1]["seconds"]) == (None, None, None)
    assert ottla("group show billing idle -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "billing  Stable, 2 members, coordinator 0; 4 records behind, the oldest 42.9 s old"
    assert lines[1].split() == ["TOPIC", "PARTITION", "COMMITTED", "END", "RECORDS", "SECONDS", "MEMBER"]
    assert lines[2].split() == ["orders", "0", "10", "14", "4", "42.9", "m1"]
    assert lines[3].split() == ["orders", "1", "-", "5", "-", "-"]
    assert lines[4] == "idle  Empty, 0 members, coordinator 0; nothing is committed yet"


def test_show_leaves_out_what_kafkas_clusters_do_not_tell(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.groups["billing"].lag[0] = PartitionLag("orders", 0, 10, 0, 14, 4, None)
    described = groups.describe
    monkeypatch.setattr(groups, "describe", lambda name: replace(described(name), coordinator=-1, shard=-1))
    assert ottla("group show billing -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "billing  Stable, 2 members; 4 records behind"
    assert lines[2].split() == ["orders", "0", "10", "14", "4", "-"]


def test_show_tells_what_a_leader_could_not(groups: FakeGroups, capsys: pytest.CaptureFixture[str]) -> None:
    away = error_from_code(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads orders-0", hint="wait")
    groups.groups["billing"].lag[0] = PartitionLag("orders", 0, 10, None, None, None, None, error=away)
    assert ottla("group show billing -o table") == 3
    out = capsys.readouterr().out
    assert "nobody leads orders-0 (LEADER_NOT_AVAILABLE); wait" in out


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("words", ["show", "members", "explain", "watch", "rm --yes", "rm-offsets -t orders"])
def test_an_unknown_group_is_not_found(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, _, options = words.partition(" ")
    assert ottla(f"group {verb} bilking {options}") == 4
    assert "the group 'bilking' does not exist (GROUP_ID_NOT_FOUND); did you mean billing?" in capsys.readouterr().err


@pytest.mark.usefixtures("groups")
def test_members_are_told_with_what_they_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("group members billing -o jsonl") == 0
    first, second = items(capsys)
    assert (first["name"], first["leader"], first["partitions"]) == ("m1", True, ["orders-0"])
    assert (second["name"], second["member_id"], second["instance_id"], second["leader"]) == ("i2", "m2", "i2", False)
    assert ottla("group members idle -o table") == 0
    assert "group idle is Empty: it has no members" in capsys.readouterr().err


def reconciling(groups: FakeGroups) -> None:
    """m1 still has orders-1, which m2 is to have."""
    orders_1 = (TopicPartition("orders", 1),)
    groups.groups["billing"].type = "consumer"
    groups.groups["billing"].members = [
        replace(member("m1", 0), epoch=2, state="unrevoked-partitions", revoking=orders_1),
        replace(member("m2"), epoch=3, state="unreleased-partitions", target=orders_1),
    ]


def test_members_of_a_consumer_group_are_told_with_how_far_they_are(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    reconciling(groups)
    assert ottla("group members billing -o table") == 0
    told = capsys.readouterr()
    head, first, _ = told.out.splitlines()
    assert head.split() == ["NAME", "CLIENT", "ID", "HOST", "EPOCH", "STATE", "PARTITIONS"]
    assert first.split()[3:] == ["2", "unrevoked-partitions", "orders-0"]
    assert "group billing is Stable at epoch 3, assigned by range" in told.err
    assert "m1 still has orders-1, for which m2 waits" in told.err
    assert ottla("group members billing -o jsonl") == 0
    assert [item["target"] for item in items(capsys)] == [[], ["orders-1"]]


def test_explain_names_who_holds_the_others_up(groups: FakeGroups, capsys: pytest.CaptureFixture[str]) -> None:
    reconciling(groups)
    groups.groups["billing"].events = [
        GroupEvent(AT, "target", "uniform assigned to 2 members", 3, partitions_moved=1),
        GroupEvent(AT, "revokes", "has to give up orders-1", 3, "m1"),
        GroupEvent(AT, "waits", "waits for orders-1 (owned by m1)", 3, "m2"),
        GroupEvent(AT, "settled", "every member has its assignment", 3, duration=0.25),
    ]
    assert ottla("group explain billing -o table") == 0
    told = capsys.readouterr()
    assert "m1 still has orders-1, for which m2 waits" in told.err
    assert [line.split("  ", 2)[2] for line in told.out.splitlines()[1:-1]] == [
        "  target of epoch 3, 1 partition moved: uniform assigned to 2 members",
        "m1 has to give up orders-1",
        "m2 waits for orders-1 (owned by m1)",
        "  settled after 0.250 s: every member has its assignment",
    ]
    assert told.out.splitlines()[-1].endswith("; 0.250 s of rebalancing, 1 partition moved")


def test_explain_is_a_story(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    silence = "sent no heartbeat for 6000 ms (session.timeout.ms)"
    groups.groups["billing"].events = [
        GroupEvent(AT, "joined", "joined", 0, "m1", None, "app", "10.0.0.1"),
        GroupEvent(AT + 1, "rebalance-began", "app joined", 0),
        GroupEvent(AT + 2, "generation", "1 member, assignor range, leader m1", 1),
        GroupEvent(AT + 3, "assigned", "1 member in the group", 1, duration=0.25, partitions_moved=2),
        GroupEvent(AT + 4, "evicted", silence, 1, "m2", "i\x1b2", "app", "10.0.0.2"),
        GroupEvent(AT + 5, "left", "it hangs", 1, "m3"),
        GroupEvent(AT + 6, "replaced", "came back in place of m4", 1, "m5", "i5"),
    ]
    assert ottla("group explain billing -o table") == 0
    printed = capsys.readouterr()
    assert printed.err == "group billing is in shard 1, which coordinator 0 owns\n"
    lines = printed.out.splitlines()
    assert lines[0] in ("2026-11-01", "2026-11-02")
    assert [line.split("  ", 2)[2] for line in lines[1:-1]] == [
        "m1 at 10.0.0.1 joined",
        "rebalance: app joined",
        "  generation 1: 1 member, assignor range, leader m1",
        "  rebalanced after 0.250 s, 2 partitions moved: 1 member in the group",
        f"i\\x1b2 at 10.0.0.2 was evicted: {silence}",
        "m3 left: it hangs",
        "i5 came back in place of m4",
    ]
    assert lines[1].split()[0].endswith(":00.000")
    assert lines[-1] == "1 join, 1 left, 1 eviction, 1 rebalance; 0.250 s of rebalancing, 2 partitions moved"
    assert ottla("group explain billing -o jsonl") == 0
    first = items(capsys)[0]
    assert (first["at"], first["kind"], first["timestamp"]) == ("2026-11-01T12:00:00.000+00:00", "joined", AT)


def test_explain_shows_the_last_events_of_many(groups: FakeGroups, capsys: pytest.CaptureFixture[str]) -> None:
    groups.groups["billing"].events = [
        GroupEvent(AT + n, "rebalance-began", f"the {n}th time", n) for n in range(group_timeline._MOST_EVENTS + 7)
    ]
    assert ottla("group explain billing -o table") == 0
    left_out, _day, first, *others, summary = capsys.readouterr().out.splitlines()
    assert left_out == "7 earlier events left out; -o jsonl prints all"
    assert "the 7th time" in first
    assert len(others) == group_timeline._MOST_EVENTS - 1
    assert f"{group_timeline._MOST_EVENTS + 7} rebalances" in summary
    assert ottla("group explain billing -o jsonl") == 0
    assert len(items(capsys)) == group_timeline._MOST_EVENTS + 7


def test_watch_goes_on_while_the_coordinator_is_away(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    groups.failing = [error_from_code(ErrorCode.COORDINATOR_NOT_AVAILABLE, "it moves")]
    assert ottla("group watch billing -n 3 --every 500ms") == 0
    told = capsys.readouterr()
    assert [json.loads(line)["records"] for line in told.out.splitlines()] == [4, 4]
    assert "it moves" in told.err
    assert pauses == [0.5, 0.5]
    assert ottla("group watch billing -n 1 -o json") == 2

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert ottla("group watch billing -o table") == 130


# ---- change ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("--to start", {"to": "earliest"}),
        ("--to latest", {"to": "latest"}),
        ("--to 42", {"to": 42}),
        ("--to @1793523600250", {"to": datetime(2026, 11, 1, 9, 0, 0, 250_000, UTC)}),
        ("--shift -100", {"shift": -100}),
        ("--to end -t orders -t refunds", {"to": "latest", "topics": ["orders", "refunds"]}),
        ("--to end -t orders -p 1", {"to": "latest", "partitions": [("orders", 1)]}),
        ("--to end -t orders --create --execute", {"topics": ["orders"], "if_missing": "ok", "dry_run": False}),
    ],
)
def test_reset_is_a_dry_run_unless_told_otherwise(groups: FakeGroups, options: str, asked: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"to": "latest", "shift": None, "topics": (), "partitions": [], "if_missing": "error"}
    if "shift" in asked:
        usual["to"] = None
    assert ottla(f"group reset audit {options}") == 0
    assert groups.admin.calls == [("reset", "audit", {**usual, "dry_run": True, **asked})]


def test_reset_shows_where_offsets_go(groups: FakeGroups, capsys: pytest.CaptureFixture[str]) -> None:
    groups.resets = (OffsetReset("orders", 0, 7, 3, -93), OffsetReset("orders", 1, None, 5, 5))
    assert ottla("group reset audit --shift -100 -o jsonl") == 0
    told = capsys.readouterr()
    first, second = (json.loads(line) for line in told.out.splitlines())
    assert (first["name"], first["before"], first["after"], first["moved"]) == ("orders-0", 7, 3, -4)
    assert (second["before"], second["moved"], second["action"]) == (None, None, "none")
    assert "orders-0 has no offset -93: its nearest end is 3" in told.err
    assert "nothing was changed: add --execute to move the offsets" in told.err
    assert ottla("group reset audit --shift -100 --execute -o json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["items"][0]["action"] == "reset"
    assert "reset 2 offsets of audit" in told.err


@pytest.mark.parametrize(
    "options", ["", "--to start --shift 1", "--to +5", "--to -100", "--to x", "--to 1 -p 0", "--to 1 -t a -t b -p 0"]
)
def test_a_reset_that_says_not_where_is_refused(groups: FakeGroups, options: str) -> None:
    assert ottla(f"group reset audit {options}") == 2
    assert groups.admin.calls == []


def test_rm_asks_and_refuses_groups_with_members(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla("group rm audit") == 2, "nobody can be asked"
    assert ottla("group rm audit --dry-run") == 0
    asked = sit(monkeypatch, yes=False)
    assert ottla("group rm audit") == 1
    assert groups.admin.calls == []
    assert asked == ["Permanently delete this group with all offsets?"]
    assert "audit: 2 offsets of orders, refunds" in capsys.readouterr().err
    sit(monkeypatch, yes=True)
    assert ottla("group rm audit billing nobody -o jsonl") == 3
    told = capsys.readouterr()
    assert json.loads(told.out) == {"name": "audit", "action": "deleted"}
    assert "group billing can't be deleted while it has members: m1 at 10.0.0.1, i2 at 10.0.0.1" in told.err
    assert "the group 'nobody' does not exist" in told.err
    assert groups.admin.calls == [("delete", "audit")]
    assert ottla("group rm billing") == 1
    assert ottla("group rm nobody --if-exists") == 0


def test_rm_offsets_forgets_one_topic(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla("group rm-offsets audit") == 2
    assert ottla("group rm-offsets audit -t orders --dry-run -o jsonl") == 0
    assert items(capsys) == [{"name": "orders-0", "topic": "orders", "partition": 0, "action": "none"}]
    asked = sit(monkeypatch, yes=True)
    assert ottla("group rm-offsets audit -t refunds -p 0") == 0
    assert asked == ["Permanently delete this offset?"]
    assert "refunds-0: 2" in capsys.readouterr().err
    assert ottla("group rm-offsets audit -t refunds -p 5 --yes") == 0
    assert "group audit has no committed offsets to delete" in capsys.readouterr().err
    assert groups.admin.calls == [("delete_offsets", "audit", ("refunds-0",))]


def test_kick_removes_members_by_either_name(
    groups: FakeGroups, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = sit(monkeypatch, yes=True)
    assert ottla("group kick billing m1 i2 --dry-run") == 0
    assert groups.admin.calls == []
    assert ottla("group kick billing i2 m9 --reason 'it hangs' -o jsonl") == 3
    told = capsys.readouterr()
    assert json.loads(told.out) == {"name": "m2", "group": "billing", "action": "removed"}
    assert "i2 at 10.0.0.1: reads orders-1" in told.err
    assert "group billing has no member 'm9' (UNKNOWN_MEMBER_ID); did you mean" in told.err
    assert asked == ["Remove this member?"]
    assert groups.admin.calls == [("kick", "billing", "m2", "it hangs")]
