"""`ottla topic`, over a fake Admin: what is shown, what is asked, what is done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import WARNING, FakeAdmin, Log, ottla, sit

from ottla_cli.commands import topic
from ottla_cli.main import run

NOW_MS = 1_793_527_200_000


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    times = tuple(NOW_MS + n * 1000 for n in range(5))
    fake = FakeAdmin(orders=[Log(0, times), Log(10, times[:2]), Log()], refunds=[Log()])
    monkeypatch.setattr(topic, "open_admin", lambda settings: fake)
    return fake


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[str]]:
    """Somebody sits at the terminal; gives the questions that were asked."""

    return lambda yes: sit(monkeypatch, yes)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))


def data(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("admin")
def test_ls_lists_what_matches(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic ls") == 0
    orders, refunds = data(capsys)
    assert (orders["name"], orders["partitions"], orders["replicas"]) == ("orders", 3, 1)
    assert refunds["name"] == "refunds"
    assert ottla("topic ls 'ref*' -o name") == 0
    assert capsys.readouterr().out == "refunds\n"
    assert ottla("topic ls 'nothing*'") == 0
    assert capsys.readouterr() == ("", "there is no such topic\n")


def test_ls_has_a_column_for_trouble_only_in_trouble(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic ls -o table") == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["NAME", "PARTITIONS", "REPLICAS"]
    admin.stand("orders", 1, leader=-1)
    assert ottla("topic ls -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "WITHOUT LEADER" in lines[0]
    assert lines[1].split() == ["orders", "3", "1", "1"]


def test_ls_filters_by_trouble(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.stand("orders", 1, leader=2, replicas=(2,), isr=(2,), offline=(2,))
    admin.stand("refunds", 0, replicas=(0, 1), isr=(0,))
    for filters, names in (
        ("--under-replicated", "refunds\n"),
        ("--offline", "orders\n"),
        ("--offline --under-replicated", "orders\nrefunds\n"),
    ):
        assert ottla(f"topic ls -o name {filters}") == 0
        assert capsys.readouterr().out == names, filters


def test_show_marks_what_is_wrong_with_replicas(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.values["min.insync.replicas"] = ("2", "DEFAULT_CONFIG")
    admin.stand("orders", 0, replicas=(0, 1, 2), isr=(0,), offline=(1, 2))
    admin.stand("orders", 1, leader=-1, replicas=(1,), isr=(1,), offline=(1,))
    assert ottla("topic show orders -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[-2:] == ["OFFLINE", "STATE"]
    assert lines[4].endswith("1,2      under-replicated, under min ISR")
    assert lines[5].endswith("1        no leader")
    assert lines[6].endswith("0    0")
    assert ottla("topic show orders") == 0
    told = data(capsys)[0]["partitions"]
    assert [p["offline"] for p in told] == [[1, 2], [1], []]
    assert [p["under_replicated"] for p in told] == [True, False, False]
    assert [p["under_min_isr"] for p in told] == [True, False, False]
    assert [p["without_leader"] for p in told] == [False, True, False]


@pytest.mark.usefixtures("admin")
def test_show_tells_partitions_offsets_and_own_configs(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic show orders -o json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "topic-details/v1"
    (item,) = told["items"]
    assert item["configs"] == {"segment.ms": "3600000"}
    assert item["growth"]["by"] == "retention.ms"
    assert [(p["start"], p["end"], p["leader"]) for p in item["partitions"]] == [(0, 5, 0), (10, 12, 0), (0, 0, 0)]
    assert ottla("topic show orders -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("orders  id abab")
    assert lines[1] == "  segment.ms=3600000"
    assert lines[2].endswith(" bytes a day; retention.ms deletes the oldest segments"), "the fake's records are of 1970"
    assert lines[4].split() == ["0", "0", "0", "0", "0", "5"]


def test_show_tells_what_it_can_while_brokers_are_away(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.broken = {"offsets", "configs"}
    assert ottla("topic show orders") == 0
    printed = capsys.readouterr()
    item = json.loads(printed.out)
    assert item["configs"] is None
    assert [p["end"] for p in item["partitions"]] == [None] * 3
    assert printed.err.count("nobody leads") == 2


def test_create_makes_each_and_says_so(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic create a b -p 6 -r 1 -c retention.ms=7d -c x=y=z") == 0
    configs = {"retention.ms": "7d", "x": "y=z"}
    assert admin.calls == [("create", "a", 6, 1, configs), ("create", "b", 6, 1, configs)]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "created a: 6 partitions, 1 replica\ncreated b: 6 partitions, 1 replica\n"


def test_create_goes_on_after_one_that_exists_and_says_partial(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("topic create orders c -o json") == 3
    assert [call[1] for call in admin.calls] == ["c"]
    printed = capsys.readouterr()
    assert [item["name"] for item in json.loads(printed.out)["items"]] == ["c"]
    assert "orders already exists (TOPIC_ALREADY_EXISTS); use --if-not-exists to keep the existing topic" in printed.err
    assert ottla("topic create orders") == 1
    assert ottla("topic create orders --if-not-exists") == 0
    assert ottla("topic create d --dry-run") == 0
    assert [call[1] for call in admin.calls] == ["c"]


def test_rm_shows_what_will_go_and_asks(
    admin: FakeAdmin, answer: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answer(False)
    assert ottla("topic rm orders") == 1
    assert (asked, admin.calls) == (["Permanently delete this topic?"], [])
    assert capsys.readouterr().err == "orders: 3 partitions, 7 records\nnothing was changed\n"
    answer(True)
    assert ottla("topic rm orders refunds") == 0
    assert admin.calls == [("delete", "orders"), ("delete", "refunds")]


@pytest.mark.usefixtures("nobody")
def test_rm_needs_a_yes_where_nobody_can_be_asked(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic rm orders") == 2
    assert "confirm with --yes, or preview with --dry-run" in capsys.readouterr().err
    assert ottla("topic rm orders --dry-run") == 0
    assert admin.calls == []
    assert ottla("topic rm orders --yes -o jsonl") == 0
    assert data(capsys) == [{"name": "orders", "action": "deleted"}]


def test_rm_deletes_nothing_where_a_name_is_wrong(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic rm refunds order --yes") == 4
    assert admin.calls == []
    assert "'order' does not exist (UNKNOWN_TOPIC_OR_PARTITION); did you mean orders?" in capsys.readouterr().err
    assert ottla("topic rm refunds order --yes --if-exists") == 0
    assert admin.calls == [("delete", "refunds")]


def test_rm_goes_on_after_a_failure_and_says_partial(admin: FakeAdmin) -> None:
    admin.broken = {"delete orders"}
    assert ottla("topic rm orders refunds --yes") == 3
    assert admin.calls == [("delete", "refunds")]


@pytest.mark.feature(165)
def test_adding_partitions_warns_of_keys_that_move_and_asks(
    admin: FakeAdmin, answer: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answer(False)
    assert ottla("topic alter orders -p 6") == 1
    assert (asked, admin.calls) == (["Add the partitions?"], [])
    told = capsys.readouterr().err
    assert "orders: 3 -> 6 partitions, which can't be undone" in told
    assert f"warning: {WARNING}" in told
    assert ottla("topic alter orders -p 6 --yes -c retention.ms=1d --unset segment.ms -o json") == 0
    assert [call[0] for call in admin.calls] == ["add_partitions", "set", "unset"]
    assert json.loads(capsys.readouterr().out)["items"][0]["partitions"] == 6


def test_alter_tries_everything_before_it_does_anything(admin: FakeAdmin) -> None:
    assert ottla("topic alter orders -p 6 --yes -c nonsense=1") == 2
    assert ottla("topic alter orders -p 6 --yes --unset nonsense") == 2
    assert ottla("topic alter orders -c retention.ms=1d --dry-run") == 0
    assert ottla("topic alter orders") == 2
    assert admin.calls == []
    assert ottla("topic alter orders -c retention.ms=1d") == 0, "configs can be set back: no question"


@pytest.mark.usefixtures("admin")
def test_offsets_tell_extents_and_where_a_time_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic offsets orders") == 0
    assert data(capsys) == [
        {"partition": 0, "start": 0, "end": 5, "records": 5},
        {"partition": 1, "start": 10, "end": 12, "records": 2},
        {"partition": 2, "start": 0, "end": 0, "records": 0},
    ]
    assert run(["topic", "offsets", "orders", "--at", f"@{NOW_MS + 1500}", "-p", "0", "-p", "1"]) == 0
    assert [(item["partition"], item["at"]) for item in data(capsys)] == [(0, 2), (1, 12)]
    assert ottla("topic offsets orders -p 3") == 4
    assert capsys.readouterr().err == "ottla: orders has no partition 3; its partitions are 0 to 2\n"


def test_records_are_deleted_up_to_a_place_after_a_yes(
    admin: FakeAdmin, answer: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answer(True)
    assert ottla("topic delete-records orders --before 11 -p 1 -o jsonl") == 0
    assert asked == ["Permanently delete these records?"]
    assert admin.calls == [("delete_records", "orders", {1: 11})]
    printed = capsys.readouterr()
    assert printed.err.splitlines()[0] == "orders-1: 1 record, offsets 10 to 10"
    (item,) = [json.loads(line) for line in printed.out.splitlines()]
    assert item == {"name": "orders-1", "topic": "orders", "partition": 1, "start": 11, "action": "deleted"}
    assert ottla("topic delete-records orders --before end") == 0
    assert admin.calls[-1] == ("delete_records", "orders", {0: 5, 1: 12}), "what is empty is left alone"


@pytest.mark.usefixtures("nobody")
def test_no_record_is_deleted_without_a_yes_or_up_to_where_there_is_none(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("topic delete-records orders --before end") == 2
    assert ottla("topic delete-records orders --before end --dry-run") == 0
    assert ottla("topic delete-records orders --before 500 --yes") == 2
    assert (
        "--before 500: orders-0 ends at 5; pass --before end, or select one partition with -p"
        in capsys.readouterr().err
    )
    assert ottla("topic delete-records orders --before start --yes") == 0
    assert "there is nothing to delete" in capsys.readouterr().err
    assert ottla("topic delete-records orders --yes") == 2, "everything is deleted only by saying so"
    assert admin.calls == []
