"""The command line's words where somebody is not sure of a name, and how they stand on a narrow terminal."""

from __future__ import annotations

import re
import sys

import pytest
from cli_fakes import FakeAdmin, Log, ottla

from ottla_cli.commands import config, produce, topic
from ottla_cli.output import Listing, write_table


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("topic create", "[OPTIONS] TOPIC..."),
        ("topic ls", "[OPTIONS] [PATTERN]"),
        ("config get", "[OPTIONS] [NAME...]"),
        ("config set", "[OPTIONS] NAME=VALUE..."),
        ("group kick", "[OPTIONS] GROUP MEMBER..."),
        ("produce", "[OPTIONS] TOPIC [FILE]"),
        ("doctor replicas", "[OPTIONS] [TOPIC...]"),
    ],
)
def test_usage_is_written_as_in_manual_pages(command: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(f"{command} --help") == 0
    assert capsys.readouterr().out.splitlines()[0] == f"Usage: ottla {command} {usage}"


@pytest.mark.story("help-in-raw-markdown")
def test_help_has_tables_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("consume --help") == 0
    told = capsys.readouterr().out
    assert "|---" not in told
    assert "  -100               100 records before the end\n" in told
    assert "  %v, %s  value                                      {hex}, {base64}, {json}\n" in told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topic describe orders", "it is called 'show' here"),
        ("topic list", "it is called 'ls' here"),
        ("group delete g", "it is called 'rm' here"),
        ("cluster describe", "it is called 'info' here"),
        ("topic trim-prefix orders", "it is called 'delete-records' here"),
        ("lag my-group", "it is called 'group show' here"),
        ("group lag my-group", "it is called 'show' here"),
        ("topic nonsense", "No such command 'nonsense'; see"),
        ("-o yaml topic ls", "'--output' / '-o': 'yaml' is not one of 'table', 'json', 'jsonl', 'name'"),
    ],
)
def test_what_others_call_a_command_is_understood(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(line) == 2
    assert words in capsys.readouterr().err


def test_a_setting_of_clients_is_named_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config, "open_admin", lambda settings: FakeAdmin())
    for line in ("config explain linger.ms", "config get linger.ms"):
        assert ottla(line) == 4
        assert "it is a setting of a producer: pass it to the client, with -X linger.ms=…" in capsys.readouterr().err
    assert ottla("config explain client.id") == 4
    assert "of a producer and a consumer" in capsys.readouterr().err


@pytest.mark.story("rm-advises-to-create")
def test_who_removes_what_is_not_there_is_not_told_to_create_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = FakeAdmin(orders=[Log()])
    monkeypatch.setattr(topic, "open_admin", lambda settings: admin)
    assert ottla("topic rm order --yes") == 4
    assert "did you mean orders?" in capsys.readouterr().err
    admin.advice = "create it with Admin().topics.create(…)"
    assert ottla("topic rm x --yes") == 4
    assert (
        "does not exist (UNKNOWN_TOPIC_OR_PARTITION); with --if-exists, a missing topic is not an error"
        in capsys.readouterr().err
    )


@pytest.mark.story("names-broken-at-80-columns")
def test_names_are_whole_where_headers_can_be_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    columns = ("name", "pid", "port", "kafka_port", "admin_port", "resident_mb", "seconds_up", "restarts")
    item = dict.fromkeys(columns, 123_456) | {"name": "group-coordinator-0"}
    write_table(Listing("", [item, item | {"name": "broker-0"}], columns))
    out = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
    assert "group-coordinator-0" in out
    assert max(map(len, out.splitlines())) <= 80


def test_who_waits_at_a_terminal_is_told_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Taking:
        def __enter__(self) -> Taking:
            return self

        def __exit__(self, *error: object) -> None: ...

        def send(self, *record: object, **settings: object) -> None: ...

    def sent() -> str:
        produce.send(Taking(), iter([(None, b"x")] * 250), [], None)  # type: ignore[arg-type]  # a stand-in
        return capsys.readouterr().err

    monkeypatch.setattr(produce, "_SAY_S", 0.0)
    assert sent() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert sent() == "100 records so far\n200 records so far\n"
    monkeypatch.setattr(produce, "_SAY_S", 60.0)
    assert sent() == ""
