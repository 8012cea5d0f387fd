"""Names of groups, clients and transactions can't control the terminal of a user who lists them."""

from __future__ import annotations

import ast
import json
import logging
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Never

import pytest
import typer
from cli_fakes import FakeConsumer
from hostile import HOSTILE, HostileAdmin
from sources import ROOT
from typer.main import get_command

import ottla.admin.admin
import ottla.consumer.consumer
import ottla.mirror.channels
from ottla.errors import ErrorCode, error_from_code
from ottla.record import Record
from ottla_cli import completion, connection
from ottla_cli.commands import consume as consume_command
from ottla_cli.extents import Extent
from ottla_cli.format import compile_format
from ottla_cli.main import app, run
from ottla_core.text.line_formatter import LineFormatter
from ottla_core.text.printable import printable, printable_json

_NAME = shlex.quote(HOSTILE)
_LINES = (
    *("topic ls", f"topic show {_NAME}", f"topic rm {_NAME}", f"topic offsets {_NAME} @-1h", f"topic create {_NAME}"),
    *(f"topic alter {_NAME} -c {_NAME}=1 -p 7", f"topic delete-records {_NAME} --before end"),
    *("partition ls", f"partition elect {_NAME}", f"partition elect {_NAME} --unclean"),
    *(f"config get --topic {_NAME} --all", f"config set --topic {_NAME} {_NAME}=1", f"config unset --topic {_NAME} x"),
    *(f"config explain {_NAME}", "group ls", f"group show {_NAME}", f"group watch {_NAME} -n 1"),
    *(f"group members {_NAME}", f"group explain {_NAME}", f"group reset {_NAME} --to end", f"group rm {_NAME}"),
    *(f"group rm-offsets {_NAME} -t {_NAME}", f"group kick {_NAME} {_NAME}"),
    *("txn ls", f"txn show {_NAME}", f"txn explain {_NAME}", f"txn explain --id {_NAME}", f"txn producers {_NAME} 0"),
    *("txn hanging", f"txn abort {_NAME} --force", f"txn abort -t {_NAME} -p 1 --offset 1"),
    *("user ls", f"user rm {_NAME}", f"user passwd {_NAME} --password-file {_NAME}", f"user add {_NAME}"),
    *("acl ls", f"acl add {_NAME} read topic:{_NAME}", f"acl rm {_NAME}", f"acl test {_NAME} read topic:{_NAME}"),
    *("cluster info", "cluster health", "cluster brokers", "cluster log-dirs", f"cluster log-dirs -t {_NAME}"),
    *("cluster controllers", "metadata restored"),
    *("doctor replicas", "doctor logs", "doctor groups", "doctor transactions"),
    *(f"mirror {name} -b {_NAME}" for name in ("status", "translate", "pause", "resume", "failover", "failback")),
    *(f"mirror watch -n 1 {_NAME}", f"mirror verify {_NAME}"),
    *(f"bench produce {_NAME}", f"bench e2e {_NAME}", f"produce {_NAME}", f"{_NAME}"),
    f"consume {_NAME} -n 1",
)
_STYLE = re.compile(r"\x1b\[[01]?m|\x1b\[H\x1b\[J|\r\x1b\[K")
"""The sequences that the command line itself writes, for bold headings and to clear lines."""


@pytest.fixture(autouse=True)
def _hostile_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a narrow table breaks long names at spaces, under their own heading
    monkeypatch.setattr(ottla.admin.admin, "Admin", HostileAdmin)
    monkeypatch.setattr(connection, "check_listening", lambda settings: None)
    monkeypatch.setattr(consume_command, "look_up", lambda *_: {0: Extent(0, 1, (0, 1))})
    monkeypatch.setattr(ottla.mirror.channels.ByBrokers, "call", _refuse)
    evil = HOSTILE.encode()
    record = Record(HOSTILE, 0, 0, 0, evil, evil, [(HOSTILE, evil)])
    monkeypatch.setattr(ottla.consumer.consumer, "Consumer", lambda *_, **__: FakeConsumer([[record]], {0: 0}))


def _refuse(*_: object, timeout: float) -> Never:
    raise error_from_code(ErrorCode.INVALID_REQUEST, f"{HOSTILE} is no flow")


@pytest.mark.story("names-that-command-a-terminal")
@pytest.mark.parametrize("form", ["", "-o table", "-o json", "-o name"])
@pytest.mark.parametrize("line", _LINES)
@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_no_name_reaches_a_terminal_as_it_is(
    is_terminal: bool, line: str, form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    run(shlex.split(f"{line} {form} --yes"))
    written, said = capsys.readouterr()
    assert "internal error" not in said
    assert _harm(said) == []
    if line.startswith("consume") and form != "-o json" and not is_terminal:
        assert HOSTILE in written, "what goes into a pipe is what records have, byte for byte"
    else:
        assert _harm(written) == []


@pytest.mark.parametrize("path", sorted((ROOT / "cli/ottla_cli").rglob("*.py")), ids=lambda path: path.name)
def test_commands_write_only_through_the_filter(path: Path) -> None:
    """`output` writes tables and JSON, whose cells and strings have passed it; `consume` writes what `-f` describes."""
    called = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    writers = {
        name for name in called if re.fullmatch(r"print|typer\.(echo|secho)|sys\.std(out|err)(\..*)?\.write", name)
    }
    assert not writers or path.name in ("terminal.py", "output.py", "main.py", "consume.py")


def test_a_template_keeps_its_own_colours_on_a_terminal() -> None:
    value = b"\x1b[2Jv\xff\n"
    record = Record("t", 0, 7, 0, None, value, [])
    shown = compile_format(r"\x1b[1m%o\x1b[m %v\n", for_terminal=True)(record)
    assert (
        shown
        == rb"\x1b[1m7\x1b[m \x1b[2Jv\xff\n".replace(rb"\x1b[1m", b"\x1b[1m").replace(rb"\x1b[m", b"\x1b[m") + b"\n"
    )
    assert compile_format("%v")(record) == value


def test_json_has_the_exact_names() -> None:
    text = json.dumps([HOSTILE, "größe \U0001f600"], ensure_ascii=False)
    assert _harm(printable_json(text)) == []
    assert json.loads(printable_json(text)) == json.loads(text)


def test_harmless_text_is_unchanged() -> None:
    text = "größe 日本\u3000語 \U0001f469\u200d\U0001f680 نص a\\n"
    assert printable(text) == text
    assert printable("a\nb\x9b\udc80\u202e") == r"a\nb\x9b\udc80\u202e"


def test_no_shell_evaluates_a_name_that_it_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a.b-c_d", "größe", HOSTILE, "a b", '\\") ; touch x ; (', "$(x)", "`x`", "'", "a;b"]
    found = SimpleNamespace(topics=SimpleNamespace(list=lambda: names))
    monkeypatch.setattr(completion, "open_admin", lambda settings: nullcontext(found))
    context = typer.Context(get_command(app))
    assert completion.complete_topic(context, "") == ["a.b-c_d", "größe"]


def test_a_log_on_a_terminal_has_a_line_for_each_message() -> None:
    try:
        int(HOSTILE)
    except ValueError:
        record = logging.LogRecord("ottla", logging.ERROR, "", 0, "%s failed", (HOSTILE,), sys.exc_info())
    assert _harm(LineFormatter("%(asctime)s %(message)s").format(record)) == []


def _harm(written: str) -> list[str]:
    """Return the characters on which a terminal acts, and the lines that look like others."""
    left = _STYLE.sub("", written)
    return [c for c in set(left) if c != "\n" and printable(c) != c] + re.findall(r"(?m)^forged.*", left)
