"""`ottla partition`, over a fake Admin: what is listed, what is elected, what is asked before."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import TOPIC, FakeAdmin, Log, ottla, sit

from ottla.errors import ErrorCode, error_from_code
from ottla_cli.commands import partition


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """orders-0 is well, orders-1 lacks a replica, orders-2 is below min.insync.replicas, refunds-0 has no leader."""
    fake = FakeAdmin(orders=[Log()] * 3, refunds=[Log()])
    fake.values["min.insync.replicas"] = ("2", TOPIC)
    fake.stand("orders", 0, replicas=(0, 1, 2), isr=(0, 1, 2))
    fake.stand("orders", 1, leader=1, replicas=(2, 0, 1), isr=(1, 0), offline=(2,))
    fake.stand("orders", 2, leader=1, replicas=(1, 2, 3), isr=(1,), offline=(2, 3))
    fake.stand("refunds", 0, leader=-1, replicas=(2, 0), isr=(2,), offline=(2,))
    monkeypatch.setattr(partition, "open_admin", lambda settings: fake)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    return fake


def data(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refuse(admin: FakeAdmin, topic: str, number: int, code: ErrorCode, words: str) -> None:
    admin.partitions.elections[topic, number] = error_from_code(code, f"{topic}-{number}: {words}")


@pytest.mark.usefixtures("admin")
def test_ls_tells_leaders_replicas_and_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("partition ls orders -o json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "partitions/v1"
    assert told["items"][1] == {
        "name": "orders-1",
        "topic": "orders",
        "partition": 1,
        "leader": 1,
        "leader_epoch": 4,
        "replicas": [2, 0, 1],
        "isr": [1, 0],
        "elr": [],
        "last_known_elr": [],
        "offline": [2],
        "without_leader": False,
        "under_replicated": True,
        "under_min_isr": False,
        "state": "under-replicated",
    }
    assert ottla("partition ls -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[2:] == ["LEADER", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE", "STATE"]
    assert lines[3].split()[:7] == ["orders", "2", "1", "4", "1,2,3", "1", "2,3"]
    assert lines[3].endswith("under-replicated, under min ISR")
    assert lines[4].endswith("no leader, under-replicated, under min ISR")


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("", ["orders-0", "orders-1", "orders-2", "refunds-0"]),
        ("--under-replicated", ["orders-1", "orders-2", "refunds-0"]),
        ("--under-min-isr", ["orders-2", "refunds-0"]),
        ("--offline", ["refunds-0"]),
        ("--unavailable", ["refunds-0"]),
        ("--leader 1", ["orders-1", "orders-2"]),
        ("--leader 1 --under-min-isr", ["orders-2"]),
        ("--offline --under-min-isr", ["orders-2", "refunds-0"]),
        ("orders --offline", []),
    ],
)
def test_ls_filters(filters: str, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(f"partition ls -o name {filters}") == 0
    assert capsys.readouterr().out.split() == names


def test_ls_does_not_guess_min_isr(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.broken = {"configs"}
    assert ottla("partition ls orders") == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["under_min_isr"] for line in printed.out.splitlines()] == [False, None, None]
    assert "configs: nobody leads" in printed.err


def test_ls_says_where_there_is_nothing(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("partition ls order") == 4
    assert "did you mean orders?" in capsys.readouterr().err
    admin.logs.clear()
    assert ottla("partition ls") == 0
    assert capsys.readouterr() == ("", "there are no partitions yet\n")


@pytest.mark.feature(114)
def test_elect_tells_what_became_of_each_partition(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    refuse(admin, "orders", 0, ErrorCode.ELECTION_NOT_NEEDED, "the preferred leader 0 already leads the partition")
    refuse(admin, "orders", 1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "broker 2 is not live; try again")
    assert ottla("partition elect --topic orders -o jsonl") == 3, "a part of it failed"
    assert admin.calls == [("elect", [("orders", 0), ("orders", 1), ("orders", 2)], False)]
    printed = capsys.readouterr()
    assert [(i["name"], i["leader"], i["action"]) for i in map(json.loads, printed.out.splitlines())] == [
        ("orders-0", None, "none"),
        ("orders-2", 1, "elected"),
    ]
    assert printed.err.splitlines() == [
        "orders-0: the preferred leader 0 already leads the partition: nothing to do",
        "orders-2: broker 1 is now the leader",
        "ottla: orders-1: broker 2 is not live; try again (PREFERRED_LEADER_NOT_AVAILABLE)",
    ]


@pytest.mark.feature(114)
def test_an_election_that_nobody_needs_is_no_failure(admin: FakeAdmin) -> None:
    refuse(admin, "orders", 0, ErrorCode.ELECTION_NOT_NEEDED, "already leads the partition")
    refuse(admin, "orders", 1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "is not live")
    assert ottla("partition elect -t orders -p 0") == 0
    assert ottla("partition elect -t orders -p 1") == 1
    assert ottla("partition elect -t orders -p 2 -p 0 -p 2") == 0
    assert [call[1] for call in admin.calls] == [[("orders", 0)], [("orders", 1)], [("orders", 2), ("orders", 0)]]


def test_elect_all_leaves_it_to_the_controller_which_those_are(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("partition elect --all") == 0
    assert admin.calls == [("elect", None, False)]
    assert capsys.readouterr().err == "every partition has its preferred leader\n"


def test_a_dry_run_shows_the_plan_and_elects_nobody(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("partition elect --all --dry-run") == 0
    assert capsys.readouterr().err.splitlines() == [
        "orders-1: broker 2 instead of 1",
        "refunds-0: broker 2 instead of none",
    ]
    assert ottla("partition elect -t orders -p 0 --dry-run") == 0
    assert capsys.readouterr().err == "every partition has its preferred leader\n"
    assert ottla("partition elect --all --unclean --dry-run") == 0
    assert capsys.readouterr().err == "refunds-0: no leader; last in sync: 2; online now: 0\n"
    assert admin.calls == []


def test_an_unclean_election_shows_what_it_is_about_and_asks(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("partition elect --all --unclean") == 2, "nobody can be asked here"
    assert "confirm with --yes, or preview with --dry-run" in capsys.readouterr().err
    asked = sit(monkeypatch, yes=False)
    assert ottla("partition elect --all --unclean") == 1
    assert asked == ["Records that only the missing replicas have are permanently lost. Elect?"]
    assert "refunds-0: no leader" in capsys.readouterr().err
    assert admin.calls == []
    sit(monkeypatch, yes=True)
    assert ottla("partition elect --all --unclean") == 0
    assert ottla("partition elect -t refunds --unclean --yes") == 0
    assert admin.calls == [("elect", [("refunds", 0)], True)] * 2, "of all, only what was shown"


def test_an_unclean_election_of_what_has_a_leader_asks_nothing(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("partition elect -t orders --unclean") == 0
    assert admin.calls == []
    assert capsys.readouterr().err == "nothing to elect: every partition has a leader\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("", 2, "pass --topic or --all"),
        ("--all -t orders", 2, "pass --topic or --all"),
        ("--all -p 1", 2, "--partition needs exactly one topic"),
        ("-t orders -t refunds -p 0", 2, "--partition needs exactly one topic"),
        ("-t orders -p 3", 4, "orders has no partition 3; its partitions are 0 to 2"),
        ("-t orders -p -1", 4, "orders has no partition -1"),
        ("-t order", 4, "did you mean orders?"),
    ],
)
def test_what_can_not_be_elected_is_refused(
    admin: FakeAdmin, arguments: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla(f"partition elect {arguments}") == code
    assert words in capsys.readouterr().err
    assert admin.calls == []


def test_ls_shows_who_is_eligible_and_who_was(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.stand("orders", 2, elr=(2,), last_known_elr=(3,))
    assert ottla("partition ls orders -o json") == 0
    item = json.loads(capsys.readouterr().out)["items"][2]
    assert (item["isr"], item["elr"], item["last_known_elr"]) == ([1], [2], [3])
    assert ottla("partition ls orders -o table") == 0
    assert capsys.readouterr().out.splitlines()[0].split()[7:11] == ["ELR", "LAST", "KNOWN", "ELR"]
