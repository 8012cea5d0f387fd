"""Ports of loopback: a span is claimed by one stack at a time, and a held port waits for its server."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla_cli.failures import ExitCode
from ottla_cli.main import run
from ottla_core.host_port import HostPort
from ottla_stack.ports import free_port_base, hold, is_free


def test_no_other_process_chooses_a_span_before_its_stack_has_bound_it(monkeypatch: pytest.MonkeyPatch) -> None:
    base = free_port_base()
    choice = f"import random; random.randrange = lambda *_: {base}; from ottla_stack.ports import free_port_base"
    other = subprocess.run(
        [sys.executable, "-c", f"{choice}; free_port_base()"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "no 200 consecutive free ports" in other.stderr
    monkeypatch.setattr(random, "randrange", lambda *_: base)
    with pytest.raises(OSError, match="no 200 consecutive free ports"):
        free_port_base()


def test_one_process_keeps_its_last_claims_and_so_never_runs_out_of_spans() -> None:
    assert len({free_port_base() for _ in range(100)}) > 8


def test_a_held_port_is_refused_given_to_no_other_and_bound_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with hold(HostPort(*address)):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        with socket.create_server(address) as again, socket.create_connection(address, timeout=5):
            assert again.accept()[0].close() is None
    assert is_free(HostPort(*address))


def test_a_port_that_is_served_is_not_held() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="in use"):
        hold(HostPort(*server.getsockname()))


def test_a_port_base_without_room_for_the_ports_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for port_base in ("0", "65500", "99999"):
        assert run(["up", "--dir", str(tmp_path / "stack"), "--port-base", port_base]) == ExitCode.USAGE
        assert f"--port-base {port_base} leaves no room for the stack's ports" in capsys.readouterr().err
    assert not (tmp_path / "stack").exists()
