"""F21: quiet and hostile phases in turn, and what a client that does no harm sees of the hostile ones."""

from __future__ import annotations

import os
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Final

from tests.faults.cluster import BROKERS, KAFKA_PORT, FaultCluster, until
from tests.faults.fault_run import CLIENTS, FaultRun, Result
from tests.faults.gaps import percentile
from tests.faults.history import read_history, read_lines
from tests.faults.nemesis import Nemesis
from tests.faults.node import Node
from tests.faults.starved.counted import parse

import ottla
from ottla_broker.kafka.network.limits import ConnectionLimits

PAIRS: Final = 5
"""At least, of a quiet and a hostile phase; more in a longer run."""
CONNECTIONS: Final = 200
MUTANT: Final = "announced-bytes-charged"

BOUNDS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "api_versions_p99_ms": 100.0,
        "produce_p99_ratio": 3.0,
        "rss_over_idle_mb": ConnectionLimits().max_held / 1e6 + 64.0,
        "watchdog_max_ms": 100.0,
    }
)
WAYS: Final = ("announced", "announced first", "trickled", "not read", "repeated")
_LEAST_SAMPLES: Final = 40
"""The minimum number of samples of each kind and phase; fewer prove nothing."""

TOPIC: Final = "quiet"
DATA_TOPIC: Final = "read-by-hostile"
_DATA_RECORDS: Final = 12
_DATA_BYTES: Final = 900_000
_PHASE_S: Final = 10.0
_SETTLE_S: Final = 2.0
"""After a phase nothing counts for so long: what is open of it comes to its end."""
_SAMPLE_S: Final = 0.2
_FLOW_LIMIT_S: Final = 30.0
_END_LIMIT_S: Final = 30.0
_ASK_S: Final = 10.0
_TURN_METRIC: Final = "ottla_loop_turn_cpu_max_seconds"


@dataclass(frozen=True, slots=True)
class HostileRow:
    name: str = "F21"
    title: str = f"{CONNECTIONS} hostile connections, quiet and hostile phases in turn"
    minutes: float = 2 * PAIRS * (_PHASE_S + _SETTLE_S) / 60


HOSTILE_ROW: Final = HostileRow()


@dataclass(frozen=True, slots=True)
class Phase:
    is_hostile: bool
    from_s: float
    to_s: float


@dataclass(slots=True)
class HostileFigures:
    phases: list[Phase] = field(default_factory=list)
    p99_ms: dict[str, list[float]] = field(default_factory=dict)
    """The p99 of each phase, by names such as "quiet produce"."""
    samples: Counter[str] = field(default_factory=Counter)
    did: Counter[str] = field(default_factory=Counter)
    """What the hostile connections did, by names of `WAYS`."""
    idle_bytes: int = 0
    most_bytes: int = 0
    measured: dict[str, float] = field(default_factory=dict)
    """By names of BOUNDS."""


class HostileRun(FaultRun[Result[HostileRow]]):
    """All hostile connections go to the broker that leads what the probe writes, half of them from its own address."""

    def __init__(self, directory: Path, seed: int, mutant: str = "") -> None:
        super().__init__(Result(HOSTILE_ROW), directory)
        self.figures: Final = HostileFigures()
        self._mutant: Final = mutant
        self.cluster = FaultCluster(directory / "cluster", self.network, mutant=mutant)
        self.nemesis = Nemesis(self.cluster, TOPIC, 1, CLIENTS, f"{seed}-F21", directory / "nemesis.log")
        self._broker = ""
        self._data_partition = 0
        self._skipped: Final[list[str]] = []
        self._probe: Node
        self._started = 0

    def begin(self) -> None:
        """Until the probe is acknowledged, and idle memory is known."""
        self.make_topic(TOPIC, 1)
        self.make_topic(DATA_TOPIC, BROKERS)
        self._broker = self.cluster.leader(TOPIC, 0)
        led = (n for n in range(BROKERS) if self.cluster.leader(DATA_TOPIC, n) == self._broker)
        self._data_partition = next(led)  # leaders are spread
        with ottla.Producer(self.cluster.bootstrap) as producer:
            for _ in range(_DATA_RECORDS):
                producer.send(os.urandom(_DATA_BYTES), topic=DATA_TOPIC, partition=self._data_partition)
        self._probe = self._client("probe", 0, "hostile.probe")
        self._probe.start()
        until(self._flows, "the probe's produces to be acknowledged", _FLOW_LIMIT_S)

    def harm(self, seconds: float) -> None:
        phase_s = max(_PHASE_S, seconds / (2 * PAIRS) - _SETTLE_S)
        pairs = max(PAIRS, int(seconds / (2 * (phase_s + _SETTLE_S))))
        for _ in range(1 if self._mutant else pairs):
            with self._phase(is_hostile=False):
                self._watch(phase_s)
            if not self.figures.idle_bytes:
                self.figures.idle_bytes = self.figures.most_bytes
            clients = [self._hostile_client(phase_s) for _ in CLIENTS]
            with self._phase(is_hostile=True):
                self._watch(phase_s)
            self.until_ended(clients, _END_LIMIT_S)

    @contextmanager
    def _phase(self, *, is_hostile: bool) -> Iterator[None]:
        time.sleep(_SETTLE_S)
        self.nemesis.note("hostile" if is_hostile else "quiet")
        began = time.monotonic()
        yield
        self.figures.phases.append(Phase(is_hostile, began, time.monotonic()))

    def _watch(self, seconds: float) -> None:
        """The broker's memory, for so long."""
        until_at = time.monotonic() + seconds
        while time.monotonic() < until_at:
            self.figures.most_bytes = max(self.figures.most_bytes, _rss_bytes(self.cluster.nodes[self._broker]))
            time.sleep(_SAMPLE_S)

    def _hostile_client(self, phase_s: float) -> Node:
        self._started += 1
        arguments = [
            "--data",
            f"{DATA_TOPIC}-{self._data_partition}",
            "--connections",
            str(CONNECTIONS // len(CLIENTS)),
        ]
        seconds = phase_s + _SETTLE_S
        node = self._client(
            f"hostile-{self._started}", self._started, "hostile.client", *arguments, "--seconds", str(seconds)
        )
        node.start()
        return node

    def _client(self, name: str, number: int, module: str, *arguments: str) -> Node:
        address = f"{self.network.address(self._broker)}:{KAFKA_PORT}"
        return self.client(name, number, module, "--address", address, "--topic", TOPIC, *arguments)

    def _flows(self) -> bool:
        return any(op["f"] == "produce" and op["type"] == "ok" for op in read_lines(self.history, "probe"))

    def come_to_rest(self) -> None:
        self.figures.measured["watchdog_max_ms"] = (
            1000 * _told_by(self.cluster.admin_address(self._broker))[_TURN_METRIC]
        )
        self._probe.terminate()
        self.until_ended([self._probe], _END_LIMIT_S)

    @property
    def caught(self) -> bool:
        """Whether a figure is beyond its bound, or the probe was answered too seldom to tell one."""
        return self.complete and bool(self._beyond() or self._skipped)

    # ---- the verdict -----------------------------------------------------------------------------------------------

    def judge(self, *, share: float) -> None:
        figures, failures = self.figures, self.result.failures
        if not self.complete:
            failures.append("it did not come to its end: there is nothing to judge")
            return
        self._gather()
        slower = [
            hostile / max(quiet, 0.001)
            for quiet, hostile in zip(figures.p99_ms["quiet produce"], figures.p99_ms["hostile produce"], strict=True)
        ]
        figures.measured["api_versions_p99_ms"] = max(figures.p99_ms["hostile api_versions"])
        figures.measured["produce_p99_ratio"] = median(slower)
        figures.measured["rss_over_idle_mb"] = (figures.most_bytes - figures.idle_bytes) / 1e6
        failures += self._skipped + self._beyond()
        failures += [f"no connection was of the kind '{way}'" for way in WAYS if not figures.did[way]]
        if figures.did["failed"]:
            failures.append(f"{figures.did['failed']} requests of the probe failed")

    def _beyond(self) -> list[str]:
        measured = self.figures.measured
        return [
            f"{name} is {measured[name]:.1f}, and may be {bound:g}"
            for name, bound in BOUNDS.items()
            if not measured[name] <= bound
        ]

    def _gather(self) -> None:
        """What the history says of each phase. One in which the probe or the hostile clients did too little is
        skipped, and that is a failure."""
        figures = self.figures
        took: dict[tuple[int, str], list[float]] = {
            (n, kind): [] for n in range(len(figures.phases)) for kind in ("api_versions", "produce")
        }
        for operation in read_history(self.history):
            if operation["f"] == "hostile":
                figures.did.update(operation["did"])
                continue
            for n, phase in enumerate(figures.phases):
                if phase.from_s <= operation["due_s"] < phase.to_s:
                    took[n, operation["f"]].append(operation["ms"])
                    figures.did["failed"] += operation["type"] != "ok"
        for (n, kind), times in took.items():
            name = f"{'hostile' if figures.phases[n].is_hostile else 'quiet'} {kind}"
            figures.p99_ms.setdefault(name, []).append(percentile(times, 0.99))
            figures.samples[name] += len(times)
            if len(times) < _LEAST_SAMPLES:
                self._skipped.append(f"phase {n}, {name}: {len(times)} requests tell nothing")


def _told_by(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_ASK_S) as answer:
        return parse(answer.read().decode())


def _rss_bytes(node: Node) -> int:
    for line in Path(f"/proc/{node.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
