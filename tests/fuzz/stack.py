"""The broker under test, with an etcd, a controller and coordinators behind it, each a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from ottla_stack.embedded_etcd import EmbeddedEtcd, plan_etcd
from ottla_stack.ports import free_port_base

_START_LIMIT_S: Final = 40.0
_STOP_LIMIT_S: Final = 10.0
_PAGES_AT: Final = 1
_KINDS: Final = ("broker", "controller", "group-coordinator", "txn-coordinator")
_FEW_SHARDS: Final = "offsets.topic.num.partitions=4,transaction.state.log.num.partitions=4"


class Stack:
    """`planted` names one of tests.fuzz.planted; `memory_limit_mb` bounds the broker's address space; `broker` has more
    settings of the broker. Where they have listeners, `kafka_port` is a free port for one of these."""

    def __init__(
        self,
        directory: Path,
        *,
        planted: str = "",
        memory_limit_mb: int = 0,
        broker: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.directory: Final = directory
        self._ports = iter(range(free_port_base(), 1 << 16))
        self.kafka_port: Final = next(self._ports)
        self.logs: Final = tuple(directory / f"{kind}.log" for kind in _KINDS)
        self._planted = planted
        self._broker = broker
        self._memory_limit_mb = memory_limit_mb
        self._etcd = EmbeddedEtcd(plan_etcd(directory / "etcd", next(self._ports), next(self._ports)))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._etcd.start()
        try:
            self._start("controller", ["-m", "ottla_controller"], {"first-configs": _FEW_SHARDS})
            module = ["-m", "tests.fuzz.planted", self._planted] if self._planted else ["-m", "ottla_broker"]
            places: dict[str, object] = {"data-dir": self.directory / "data"}
            if "kafka-listeners" not in self._broker:
                places["kafka-port"] = self.kafka_port
            self._start("broker", module, {**places, "unstable-api-versions-enable": True, **self._broker})
            at_once: dict[str, object] = {"group-initial-rebalance-delay-ms": 0}
            self._start("group-coordinator", ["-m", "ottla_group_coordinator"], at_once)
            self._start("txn-coordinator", ["-m", "ottla_txn_coordinator"], {})
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    @property
    def ended(self) -> str:
        """Which process has ended and how, "" where none has."""
        ended = [(kind, code) for kind, process in self._processes.items() if (code := process.poll()) is not None]
        return ", ".join(f"the {kind} ended with {code}" for kind, code in ended)

    @property
    def rss_mb(self) -> float:
        """Resident memory of the broker; 0 where it has ended."""
        try:
            pages = Path(f"/proc/{self._processes['broker'].pid}/statm").read_text().split()[_PAGES_AT]
        except OSError:
            return 0.0
        return int(pages) * resource.getpagesize() / 1e6

    def _start(self, kind: str, module: list[str], settings: dict[str, object]) -> None:
        admin_port = next(self._ports)
        settings |= {"node-id": 0, "port": next(self._ports), "admin-port": admin_port, "etcd": self._etcd.endpoint}
        command = [sys.executable, *module, *(f"--{key}={value}" for key, value in settings.items())]
        with (self.directory / f"{kind}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes[kind] = process
        if kind == "broker" and self._memory_limit_mb:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (self._memory_limit_mb << 20,) * 2)
        _until(lambda: _is_ready(admin_port, process), f"the {kind} to be ready; its log is {log.name}")

    def _stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()  # one after the other: a broker asks the controller to lead its partitions elsewhere
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._etcd.stop()


def _is_ready(admin_port: int, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _until(ask: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + _START_LIMIT_S
    while not ask():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited {_START_LIMIT_S:g} s in vain for {what}")
        time.sleep(0.05)
