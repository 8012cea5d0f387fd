"""`ottla up` on a terminal: what stands there after Ctrl-C."""

from __future__ import annotations

import asyncio
import io
import os
import re
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from ottla_stack import commands
from ottla_stack.plan import StackPlan
from ottla_stack.state import ProcessIdentity, RunningProcess, StackState
from ottla_stack.supervisor import Supervisor

WIDTH = 80


class Screen:
    """The little of a terminal that Rich's live view uses: lines, the cursor's column, up, erase, wrap at the edge."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = self.column = 0

    def feed(self, text: str) -> None:
        for found in re.finditer(r"\x1b\[(\??\d*(?:;\d+)*)([A-Za-z])|([\s\S])", text):
            parameter, code, character = found.groups()
            if character is not None:
                self._write(character)
            elif code == "A":
                self.row -= int(parameter or 1)
            elif code == "K":
                self.lines[self.row] = ""

    def _write(self, character: str) -> None:
        if character == "\r":
            self.column = 0
            return
        if character == "\n" or self.column == WIDTH:
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        if character != "\n":
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1


class Running:
    """A supervisor whose stack runs; a row of its table is as wide as the terminal."""

    def __init__(self, folder: Path) -> None:
        self.plan = StackPlan(folder, 9600, "ottla", 1, 3, 2)

    def state(self) -> StackState:
        me = ProcessIdentity.of(os.getpid())
        assert me is not None
        processes = [RunningProcess(name, me, 9640, 9740) for name in ("controller-0", "broker-0" + "x" * 30)]
        return StackState(me, 9600, "127.0.0.1:9092", True, processes)


@pytest.mark.story("header-of-up-doubled-by-ctrl-c")
async def test_the_terminals_own_ctrl_c_leaves_one_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=WIDTH, legacy_windows=False, color_system=None)
    monkeypatch.setattr(commands, "_out", console)
    monkeypatch.setattr(
        commands, "stack_table", lambda state: "NAME".ljust(WIDTH) + "\n" + "broker-0".ljust(WIDTH, "x")
    )
    stopping = asyncio.Event()
    stopped = asyncio.create_task(stopping.wait())
    showing = asyncio.create_task(commands._show_until(cast(Any, stopped), cast(Supervisor, Running(tmp_path))))
    async with asyncio.timeout(10):
        while "broker-0" not in written.getvalue():
            await asyncio.sleep(0.01)
        written.write("^C")  # the terminal echoes it where the cursor is
        stopping.set()
        await showing
    screen = Screen()
    screen.feed(written.getvalue())
    assert [line.split()[0] for line in screen.lines if line.startswith(("NAME", "broker"))].count("NAME") == 1


def test_what_is_being_started_is_said(tmp_path: Path) -> None:
    assert commands._described(StackPlan(tmp_path, 9600, "ottla", 1, 3, 0, 0)) == "1 controller, 3 brokers"
    assert (
        commands._described(StackPlan(tmp_path, 9600, "ottla", 2, 1, 2, 2))
        == "2 controllers, 1 broker, 2 group-coordinators, 2 txn-coordinators"
    )
