"""`ottla up` waits for what is slow and alive; `ottla down` knows a directory that is in use."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from waiting import until

from ottla_core.errors import OttlaError
from ottla_stack import commands
from ottla_stack import supervisor as module
from ottla_stack.child import Child
from ottla_stack.commands import down, status
from ottla_stack.plan import StackPlan
from ottla_stack.secure_files import SecureFiles
from ottla_stack.state import ProcessIdentity, StackState, lock
from ottla_stack.supervisor import Supervisor


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """No process is ever started."""
    monkeypatch.setattr(module.Supervisor, "_start", lambda self, *kinds: None)
    monkeypatch.setattr(module, "_TELL_S", 0.0)
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    return Supervisor(StackPlan(tmp_path, 20_000, "ottla", 1, 1, 1, 1, None), me)


@pytest.mark.story("slow-broker-that-ends-the-stack")
async def test_a_broker_that_recovers_its_logs_is_waited_for(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = iter([None, *["it recovers its logs"] * 3])
    monkeypatch.setattr(module, "not_ready", lambda port, token: next(reasons, None))
    await supervisor.until_ready()
    assert supervisor.state().ready
    assert "is not ready yet: it recovers its logs; its log is" in caplog.text
    assert module.READY_LIMIT_S >= 600


async def test_a_service_that_is_not_ready_in_time_is_named(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "not_ready", lambda port, token: "it recovers its logs")
    with pytest.raises(OttlaError, match=r"is not ready after 0\.01 s: it recovers its logs.*--ready-within"):
        await supervisor.until_ready(0.01)


async def test_a_service_that_ends_again_and_again_is_given_up(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "not_ready", lambda port, token: "nothing listens")
    for child in supervisor._children:
        child.restarts = 6 * (child.name == "controller-0")
    with pytest.raises(OttlaError, match="controller-0 is not ready and has exited 6 times: nothing listens"):
        await supervisor.until_ready()


async def test_an_etcd_that_ends_again_and_again_is_given_up(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "not_ready", lambda port, token: "nothing listens")
    for child in supervisor._children:
        child.restarts = 6 * (child.name == "etcd")
    with pytest.raises(OttlaError, match=f"etcd is not ready and has exited 6 times .*{tmp_path}/logs/etcd.log"):
        await supervisor.until_ready()


@pytest.mark.parametrize(("restarts", "why"), [(0, "in time"), (6, "and has exited 6 times")])
async def test_an_etcd_that_never_takes_users_ends_the_start_of_a_secured_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int, why: str
) -> None:
    monkeypatch.setattr(module, "is_ready", lambda health: False)
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    supervisor = Supervisor(StackPlan(tmp_path, 20_000, secure=SecureFiles.of_stack(tmp_path)), me)
    for child in supervisor._children:
        child.restarts = restarts
    with pytest.raises(OttlaError, match=f"etcd is not ready {why} .*{tmp_path}/logs/etcd.log"):
        await supervisor.until_ready(0.01 if restarts == 0 else 60)


@pytest.mark.story("stack-stays-down-on-a-full-disk")
async def test_a_new_stack_is_not_started_on_a_full_disk(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has run before is started, since its brokers know what to do on a full disk."""
    monkeypatch.setattr(module, "LEAST_FREE_BYTES", shutil.disk_usage(tmp_path).total + 1)
    with pytest.raises(OttlaError, match=r"has \d+ MiB of free space, and a new stack needs \d+ MiB .*another disk"):
        await supervisor.start()
    monkeypatch.setattr(Child, "start", lambda self: None)
    (tmp_path / "etcd" / "data" / "member").mkdir(parents=True)
    await supervisor.start()
    await supervisor.stop()


@pytest.mark.story("stack-that-runs-without-its-state")
@pytest.mark.parametrize("torn", [True, False])
@pytest.mark.parametrize("command", [down, status])
def test_a_stack_whose_state_is_gone_or_torn_is_not_called_absent(
    tmp_path: Path, command: Callable[..., None], torn: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if torn:
        (tmp_path / "state.json").write_text('{"supervisor":')
    arguments = [tmp_path] if command is down else [SimpleNamespace(), tmp_path]
    with lock(tmp_path):
        with pytest.raises(typer.Exit) as ended:
            command(*arguments)
        with pytest.raises(OttlaError, match=f"process {os.getpid()}"):
            lock(tmp_path)
    assert ended.value.exit_code == 1
    assert f"(process {os.getpid()}), but" in " ".join(capsys.readouterr().err.split())
    down(tmp_path)
    assert "nothing runs" in capsys.readouterr().err


@pytest.mark.story("advice-that-stops-another-stack")
async def test_a_stack_in_a_directory_of_its_own_says_how_to_stop_that_one(
    supervisor: Supervisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await commands._show_until(asyncio.create_task(asyncio.sleep(0, True)), supervisor)
    assert f"stop with Ctrl-C or `ottla down --dir {tmp_path}`" in capsys.readouterr().out


async def test_a_state_that_a_full_disk_refuses_is_written_once_there_is_room(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WRITE_AGAIN_S", 0.01)
    write, refused = StackState.write, []

    def full(state: StackState, directory: Path) -> None:
        refused.append(state)
        if len(refused) < 3:
            raise OSError(errno.ENOSPC, "no space left on device")
        write(state, directory)

    monkeypatch.setattr(StackState, "write", full)
    supervisor._write_state()
    await until(lambda: StackState.read(tmp_path) is not None)
