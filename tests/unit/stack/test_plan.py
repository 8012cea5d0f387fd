"""The processes that `ottla up` starts, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla_cli.main import run
from ottla_stack.plan import StackPlan
from ottla_stack.user_listeners import read_user_listeners


@pytest.mark.parametrize("mirror", [None, Path("mirror.toml")])
def test_brokers_know_the_mirror_that_runs_beside_them(tmp_path: Path, mirror: Path | None) -> None:
    services = StackPlan(tmp_path, 9600, "ottla", 1, 2, 1, 0, mirror).services()
    ports = [service.port for service in services if service.name.startswith("mirror")]
    assert bool(ports) == bool(mirror)
    told = [[part for part in s.command if part.startswith("--mirrors=")] for s in services if "broker" in s.name]
    assert told == [[f"--mirrors=127.0.0.1:{port}" for port in ports]] * 2


def told(plan: StackPlan, setting: str) -> list[str]:
    """Return the values of a setting in the processes' command lines, where they have it."""
    prefix = f"--{setting}="
    return [part.removeprefix(prefix) for s in plan.services() for part in s.command if part.startswith(prefix)]


def test_all_processes_listen_on_the_host_of_the_stack(tmp_path: Path) -> None:
    plan = StackPlan(tmp_path, 9600, "ottla", 1, 2, 1, 1, Path("mirror.toml"), host="::1")
    assert told(plan, "host") == told(plan, "admin-host") == ["::1"] * len(plan.services())
    assert set(told(plan, "etcd")) == {"[::1]:9600"}
    assert set(told(plan, "mirrors")) == {"[::1]:9680"}
    assert plan.bootstrap == "[::1]:9092,[::1]:9093"
    assert {address.host for _, address in plan.addresses()} == {"::1"}


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BROKER__KAFKA_LISTENERS", "IN://[::1]:7000,OUT://0.0.0.0:7010")
    monkeypatch.setenv("OTTLA_BROKER__KAFKA_ADVERTISED", "IN://[::1]:0,OUT://kafka.example.org:8000")


@pytest.mark.usefixtures("listeners")
def test_each_broker_has_the_listeners_of_the_settings_with_its_own_ports(tmp_path: Path) -> None:
    plan = StackPlan(tmp_path, 9600, "ottla", 1, 2, 0, 0, listeners=read_user_listeners(secure=False))
    assert told(plan, "kafka-listeners") == ["IN://[::1]:7000,OUT://0.0.0.0:7010", "IN://[::1]:7001,OUT://0.0.0.0:7011"]
    assert told(plan, "kafka-advertised") == [
        "IN://[::1]:0,OUT://kafka.example.org:8000",
        "IN://[::1]:0,OUT://kafka.example.org:8001",
    ]
    assert told(plan, "kafka-port") == []
    assert plan.bootstrap == "[::1]:7000,[::1]:7001"
    assert [str(each) for name, each in plan.addresses() if name == "broker-1"][2:] == ["[::1]:7001", "127.0.0.1:7011"]


def test_without_listeners_in_the_settings_a_broker_has_a_port(tmp_path: Path) -> None:
    plan = StackPlan(tmp_path, 9600, "ottla", 1, 2, 0, 0, listeners=read_user_listeners(secure=False))
    assert told(plan, "kafka-port") == ["9092", "9093"]
    assert told(plan, "kafka-listeners") == []


@pytest.mark.parametrize(
    ("listeners", "arguments", "words"),
    [
        ("IN://:7000,OUT://:7001", ["--brokers", "2"], "broker-0 and broker-1 would both listen on 127.0.0.1:7001"),
        ("IN://:0", [], "IN has port 0, so nobody would know the brokers' addresses"),
        ("IN://:7000", ["--secure"], "kafka_listeners is set, and a secured stack has a listener of its own"),
        ("IN://nowhere", [], "kafka_listeners: 'nowhere' is not an address: it has no port"),
        ("", ["--host", "0.0.0.0"], "--host 0.0.0.0 is not an address of loopback"),
        ("", ["--host", "localhost"], "--host localhost is not an address of loopback"),
    ],
)
def test_addresses_that_no_stack_can_have_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    listeners: str,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.setenv("OTTLA_BROKER__KAFKA_LISTENERS", listeners)
    assert run(["up", "--dir", str(tmp_path / "stack"), *arguments]) != 0
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "stack").exists()
