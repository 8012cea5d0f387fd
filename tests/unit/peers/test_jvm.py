"""A Java program beside a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers import jvm
from peers.jvm import Jvm
from peers.place import PeerError
from waiting import wait_until


def test_what_it_unpacks_lies_beside_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Streams program that is killed would leave 15 MB where the machine keeps what is temporary, each time."""
    monkeypatch.setattr(jvm, "java", lambda: "echo")
    log = tmp_path / "program.log"
    program = Jvm("jars", "Main", "argument", log=log)
    wait_until(lambda: log.read_text().endswith("-cp jars Main argument\n"))
    assert f" -Djava.io.tmpdir={tmp_path} " in log.read_text()
    program.stop()
    with pytest.raises(PeerError, match="program has ended with"):
        program.check()
