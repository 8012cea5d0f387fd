"""What runs, as rows and as a table of a narrow terminal."""

from __future__ import annotations

import io
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from ottla_cli.output import write_table
from ottla_stack.state import ProcessIdentity, RunningProcess, StackState
from ottla_stack.view import stack_listing, stack_rows, stack_table


def state() -> StackState:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    processes = [
        RunningProcess("controller-0", me, 9640, 9740),
        RunningProcess("broker-0", me, 9650, 9750, kafka_port=9092),
    ]
    return StackState(me, 9600, "127.0.0.1:9092", True, processes)


def test_a_row_has_every_port() -> None:
    ports = [(row["port"], row["kafka_port"], row["admin_port"]) for row in stack_rows(state())]
    assert ports == [(9640, None, 9740), (9650, 9092, 9750)]


def test_names_are_whole_in_80_columns() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(stack_table(state()))
    text = console.export_text()
    assert "controller-0" in text
    assert "9092" in text


def test_up_and_status_show_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(stack_table(state()))
    write_table(stack_listing(state()))
    shown = [[line.split() for line in text.splitlines()] for text in (console.export_text(), capsys.readouterr().out)]
    assert shown[0] == shown[1]
    assert shown[0][0][:4] == ["NAME", "PID", "PORT", "KAFKA"]


def test_a_state_of_an_older_release_is_read(tmp_path: Path) -> None:
    written = asdict(state())
    for process in written["processes"]:
        del process["kafka_port"]
    (tmp_path / "state.json").write_text(json.dumps(written))
    read = StackState.read(tmp_path)
    assert read is not None
    assert [row["kafka_port"] for row in stack_rows(read)] == [None, None]
