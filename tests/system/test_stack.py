"""`ottla up`, `status`, `down` as a user types them: real processes, and none of them left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from children import stop
from waiting import LIMIT_S, wait_until
from wire import Wire, batch

import ottla as sdk
from ottla_core.errors import OttlaError
from ottla_stack import running as running_module
from ottla_stack.child_log import LOG_LIMIT_BYTES
from ottla_stack.plan import DEFAULT_PORT_BASE
from ottla_stack.ports import free_port_base
from ottla_stack.running import RunningStack, wait_for
from ottla_stack.state import ProcessIdentity, StackState


def ottla(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, umask=0o022)


def running(directory: Path) -> list[ProcessIdentity]:
    state = StackState.read(directory)
    assert state is not None
    return [state.supervisor, *(p.identity for p in state.processes)]


def for_others(directory: Path) -> list[Path]:
    """What others than its owner may use of a directory, and of all that is in it."""
    return [path for path in (directory, *directory.rglob("*")) if path.lstat().st_mode & 0o077]


def test_up_and_down_leave_the_data_and_no_process(tmp_path: Path) -> None:
    base = free_port_base()
    up = ottla("up", "-d", "--port-base", str(base), cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    processes = running(tmp_path / ".ottla")
    assert len(processes) == 10, "a supervisor, etcd, a controller, three brokers, two coordinators of each kind"
    assert all(p.alive for p in processes)

    second = ottla("up", "--port-base", str(base), cwd=tmp_path)
    assert second.returncode == 1
    assert "another `ottla up` is running in" in second.stderr
    assert "ottla down" in second.stderr

    status = ottla("status", "-o", "json", cwd=tmp_path)
    kafka_port = base + 9092 - DEFAULT_PORT_BASE
    assert {i["name"]: i["kafka_port"] for i in json.loads(status.stdout)["items"]} == {
        **dict.fromkeys(
            ("etcd", "controller-0", *(f"{kind}-coordinator-{n}" for kind in ("group", "txn") for n in (0, 1)))
        ),
        **{f"broker-{n}": kafka_port + n for n in range(3)},
    }
    with Wire(f"127.0.0.1:{kafka_port}") as wire:
        kept = wire.create_topic("kept", await_leaders=False)
    assert for_others(tmp_path / ".ottla") == []
    assert ottla("down", cwd=tmp_path).returncode == 0
    assert not any(p.alive for p in processes)
    assert ottla("status", cwd=tmp_path).returncode == 4
    assert "nothing runs" in ottla("down", cwd=tmp_path).stderr

    assert ottla("up", "-d", "--port-base", str(base), cwd=tmp_path).returncode == 0
    with Wire(f"127.0.0.1:{kafka_port}") as wire:
        assert wire.metadata("kept").topics["kept"].id == kept
    processes = running(tmp_path / ".ottla")
    assert ottla("down", cwd=tmp_path).returncode == 0
    assert not any(p.alive for p in processes)


def test_brokers_lead_their_share_soon_after_a_restart(tmp_path: Path) -> None:
    """The interval of the checks is 300 s."""
    base = free_port_base()
    bootstrap = f"127.0.0.1:{base + 9092 - DEFAULT_PORT_BASE}"
    start = ("up", "-d", "--group-coordinators", "1", "--txn-coordinators", "0", "--port-base", str(base))
    assert ottla(*start, cwd=tmp_path).returncode == 0
    with sdk.Admin(bootstrap) as admin:
        created = admin.topics.create("spread", partitions=6, replicas=3)
    assert created is not None
    preferred = [partition.replicas[0] for partition in created.partitions]
    assert ottla("down", cwd=tmp_path).returncode == 0
    assert ottla(*start, cwd=tmp_path).returncode == 0

    with sdk.Admin(bootstrap) as admin:

        def leaders() -> list[int]:
            (topic,) = admin.topics.describe("spread")
            return [partition.leader for partition in topic.partitions]

        wait_until(lambda: leaders() == preferred, limit_s=60.0, says=leaders)
    assert ottla("down", cwd=tmp_path).returncode == 0


def test_what_dies_is_started_again_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "s", brokers=1, group_coordinators=0) as stack:
        for name in ("broker-0", "controller-0"):
            old = stack.pid(name)
            assert stack.restart(name, number=signal.SIGKILL) != [old]
        old = stack.pid("etcd")
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: stack.pid("etcd") != old, "etcd to come back")
        with Wire(stack.plan.bootstrap) as wire:
            topic = wire.create_topic("after")
            assert wire.produce(topic, batch(b"v")).base_offset == 0
        processes = running(tmp_path / "s")
        os.kill(stack.supervisor_pid, signal.SIGINT)
        wait_for(lambda: not any(p.alive for p in processes), "all processes to end")


def test_the_next_up_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "s", brokers=1, group_coordinators=0) as stack:
        orphans = running(tmp_path / "s")[1:]
        os.kill(stack.supervisor_pid, signal.SIGKILL)
    assert all(o.alive for o in orphans)
    with (
        RunningStack(tmp_path / "s", brokers=1, group_coordinators=0) as stack,
        Wire(stack.plan.bootstrap) as wire,
    ):
        assert not any(o.alive for o in orphans)
        assert list(wire.metadata().brokers) == [0]


def test_down_ends_what_a_killed_supervisor_left_and_a_closed_terminal_ends_all(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "killed", brokers=1, group_coordinators=0) as stack:
        orphans = running(tmp_path / "killed")[1:]
        os.kill(stack.supervisor_pid, signal.SIGKILL)
    said = ottla("down", "--dir", str(tmp_path / "killed"), cwd=tmp_path)
    assert (said.returncode, "ended 3 processes" in said.stderr) == (0, True)
    assert not any(o.alive for o in orphans)
    with RunningStack(tmp_path / "hung-up", brokers=1, group_coordinators=0) as stack:
        processes = running(tmp_path / "hung-up")
        os.kill(stack.supervisor_pid, signal.SIGHUP)
        wait_for(lambda: not any(p.alive for p in processes), "all processes to end")


def test_a_stack_that_does_not_stop_is_ended_by_force_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "STOP_LIMIT_S", 0.5)
    processes: list[ProcessIdentity] = []

    def leave_with_a_frozen_supervisor() -> None:
        with RunningStack(tmp_path / "s", brokers=1, group_coordinators=0) as stack:
            processes.extend(running(tmp_path / "s"))
            stop(stack.supervisor_pid)

    with pytest.raises(OttlaError, match=r"did not stop within 0.5 s: it was killed, together with 3 of its processes"):
        leave_with_a_frozen_supervisor()
    assert not any(p.alive for p in processes)


def test_a_log_that_has_grown_too_large_is_emptied_while_its_process_lives(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "s", brokers=1, group_coordinators=0) as stack:
        pid = stack.pid("broker-0")
        log = tmp_path / "s" / "logs" / "broker-0.log"
        with log.open("ab") as file:
            file.truncate(LOG_LIMIT_BYTES + 1)
        wait_for(lambda: log.stat().st_size <= LOG_LIMIT_BYTES, "the log to be emptied")
        assert stack.pid("broker-0") == pid
        assert log.with_suffix(".log.1").stat().st_size == LOG_LIMIT_BYTES + 1


def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    base = free_port_base()
    with socket.create_server(("127.0.0.1", base + 51)):
        refused = ottla("up", "--port-base", str(base), cwd=tmp_path)
    assert refused.returncode == 1
    assert f"port {base + 51} (broker-1) is in use" in refused.stderr
    assert "--port-base" in refused.stderr
    state = StackState.read(tmp_path / ".ottla")
    assert state is None or not state.processes


@pytest.mark.story("stack-without-its-users-listeners")
def test_a_stack_takes_the_kafka_listeners_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port_base()
    monkeypatch.setenv("OTTLA_BROKER__KAFKA_LISTENERS", f"IN://[::1]:{port},OUT://127.0.0.1:{port + 10}")
    with RunningStack(tmp_path / "s", brokers=2, group_coordinators=0) as stack:
        assert stack.bootstrap == f"[::1]:{port},[::1]:{port + 1}"
        for host, first in (("[::1]", port), ("127.0.0.1", port + 10)):
            with Wire(f"{host}:{first + 1}") as wire:
                wait_for(lambda wire=wire: len(wire.metadata().brokers) == 2, "both brokers")
                told = sorted(broker.address for broker in wire.metadata().brokers.values())
            assert told == [f"{host}:{first}", f"{host}:{first + 1}"]


@pytest.mark.feature(118)
def test_a_broker_without_an_id_is_given_one_and_keeps_it(tmp_path: Path) -> None:
    with (
        RunningStack(tmp_path / "s", brokers=1, group_coordinators=0) as stack,
        Wire(stack.plan.bootstrap) as wire,
    ):
        command = [
            sys.executable,
            "-m",
            "ottla_broker",
            f"--data-dir={tmp_path / 'fresh'}",
            "--port=0",
            "--admin-port=0",
            "--kafka-port=0",
        ]
        command.append(f"--etcd=127.0.0.1:{stack.plan.etcd_port}")
        ids = []
        for _ in range(2):
            with subprocess.Popen(command, stderr=subprocess.PIPE) as broker:
                try:
                    new = wait_for(lambda: [number for number in wire.metadata().brokers if number], "its seat")
                    ids.append(new[0])
                finally:
                    broker.terminate()
                    broker.communicate(timeout=LIMIT_S)
            wait_for(lambda: len(wire.metadata().brokers) == 1, "its seat to be empty")
        assert ids[0] == ids[1] > 0

        command += ["--node-id=0"]
        stolen = subprocess.run(
            [*command, f"--data-dir={tmp_path / 'other'}"], capture_output=True, text=True, timeout=LIMIT_S
        )
        assert stolen.returncode == 1
        assert "broker id 0 is in use" in stolen.stderr
        foreign = subprocess.run([*command, "--cluster-id=ottla"], capture_output=True, text=True, timeout=LIMIT_S)
        assert foreign.returncode == 1
        assert "belongs to node" in foreign.stderr
