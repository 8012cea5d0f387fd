"""The row: quiet, then the cores are shared with busy processes, then quiet again; and what became of it all.

Groups and their members, producers and readers work all the time. Nothing may be lost, repeated or reordered, no shard
given up and no lease lost by whoever lives, and afterwards all is as fast as before. Everything runs on two cores. Its
mutant, an owner that gives its shard up when the log is late, is found where forty-eight processes share them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

from tests.faults.checker import Checker, Findings
from tests.faults.cluster import until
from tests.faults.gaps import Hit
from tests.faults.groups.nemesis import GroupNemesis
from tests.faults.groups.rows import GroupRow, Members, named
from tests.faults.groups.run import GroupRun
from tests.faults.history import FINAL, read_history
from tests.faults.node import Node
from tests.faults.starved.counted import count
from tests.faults.starved.latencies import Latencies
from tests.faults.starved.processor import Processor, processor_of
from tools.busy import busy

CORES: Final = 2
HOGS: Final = 8
MUTANT: Final = "given-up-when-late"
MUTANT_HOGS: Final = 48
MUTANT_S: Final = 90.0
"""At most: it ends once a shard was given up."""

QUIET_S: Final = 40.0
SETTLE_S: Final = 10.0
AFTERWARDS: Final = ("after", "after-2", "after-3")
MOST_SLOWER: Final = 2.0
"""How much slower than before the p99 may be afterwards."""

LEAST_STARVED: Final = 0.2
"""The share of the processor that coordinators wanted and had to wait for: else the machine had room for all."""

LEAST_ACKNOWLEDGED: Final = 20_000

TOPIC: Final = "written-while-starved"
_PARTITIONS: Final = 6
_RATE: Final = 150.0
_FLOW_LIMIT_S: Final = 60.0
_END_LIMIT_S: Final = 150.0


def _by_its_run(nemesis: GroupNemesis, until_at: float) -> None:
    raise AssertionError("the run does the harm itself")


STARVED_ROW: Final = GroupRow(
    "F30",
    f"the cores shared with {HOGS} busy processes",
    _by_its_run,
    5.0,
    (Members(named("steady-", 12), 2), Members(("kafka",), 2, kafka=True)),
    {"commits": 10_000, "fetches": 5_000},
)


@dataclass(slots=True)
class StarvedFigures:
    """Beside what is in the row's result."""

    written: Findings = field(default_factory=Findings)
    counted: Mapping[str, int] = field(default_factory=dict)
    """While the cores were shared, by names of `counted.COUNTERS`."""
    elections: int = 0
    starved: Mapping[str, float] = field(default_factory=dict)
    """By service, the share of the processor that it wanted and had to wait for."""
    commit_p99_ms: Mapping[str, float] = field(default_factory=dict)
    send_p99_ms: Mapping[str, float] = field(default_factory=dict)


def run_starved(directory: Path, *, seconds: float, seed: int, mutant: str = "") -> StarvedRun:
    """Share the cores for so many seconds; what became of it is in its `result` and `figures`."""
    run = StarvedRun(directory, seed, mutant)
    run.run(seconds)
    return run


class StarvedRun(GroupRun):
    """With the `mutant` only until it is found, among more hogs; what else becomes of it then does not matter."""

    def __init__(self, directory: Path, seed: int, mutant: str = "") -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # and so all that it starts
        super().__init__(replace(STARVED_ROW, run=self._share_the_cores), directory, seed, mutant)
        self.figures: Final = StarvedFigures()
        self._directory: Final = directory
        self._hogs: Final = MUTANT_HOGS if mutant else HOGS
        self._quiet_s: Final = 1.0 if mutant else QUIET_S
        if mutant:
            self.nemesis.caught = lambda: self._count()["shards_given_up"] > 0
        self._phases: Final[dict[str, tuple[int, int]]] = {}
        load = ["--partitions", str(_PARTITIONS), "--rate", str(_RATE)]
        self._writers = [self._log_client("writer", f"w{n}", *load) for n in range(2)]
        self._readers = [self._log_client("reader", "r0")]
        self._final = self._log_client("reader", f"{FINAL}0", "--to-end")

    def begin(self) -> None:
        super().begin()
        self.cluster.admin().configs.set(
            {"auto.leader.rebalance.enable": False}, timeout=10.0
        )  # no elections of its own
        self.make_topic(TOPIC, _PARTITIONS, min_insync_replicas=2)
        for client in (*self._writers, *self._readers):
            client.start()
        flow = partial(self.all_acknowledged, self._writers, _PARTITIONS)
        until(flow, "every writer to be acknowledged in every partition", _FLOW_LIMIT_S)

    def come_to_rest(self) -> None:
        for writer in self._writers:
            writer.terminate()
        self.until_ended(self._writers, _END_LIMIT_S)
        self._final.start()
        self.until_ended([self._final], _END_LIMIT_S)
        for reader in self._readers:
            reader.terminate()
        self.until_ended(self._readers, _END_LIMIT_S)
        super().come_to_rest()

    def judge(self, *, share: float) -> None:
        super().judge(share=share)
        written, latencies = Checker(), Latencies()
        for operation in read_history(self.history):
            if operation["f"] in ("send", "poll"):
                written.on_operation(operation)
            latencies.on_operation(operation)
        figures, failures = self.figures, self.result.failures
        figures.written = written.findings()
        figures.commit_p99_ms = _best_afterwards(latencies.p99_ms("commit", self._phases))
        figures.send_p99_ms = _best_afterwards(latencies.p99_ms("send", self._phases))
        for examples in figures.written.examples.values():
            failures += examples
        failures += [f"{who} was told {times} times: {error}" for (who, error), times in _told(figures.written)]
        failures += missed(figures, share)

    # ---- the harm ---------------------------------------------------------------------------------------------------

    def _share_the_cores(self, nemesis: GroupNemesis, until_at: float) -> None:
        busy_s = until_at - time.monotonic()
        self._phase("before", self._quiet_s)
        services = [*self.cluster.brokers, *self.cluster.coordinators]
        at_ns, elections = time.monotonic_ns(), self._elections()
        counted, processor = self._count(), {name: self._processor(name) for name in services}
        nemesis.note(f"{self._hogs} busy processes for {busy_s:.0f} s")
        with busy(self._hogs) as hogs:
            self._phase("busy", busy_s)
            if ended := [str(hog.pid) for hog in hogs if hog.poll() is not None]:
                nemesis.failures.append(f"{', '.join(ended)} ended early")
            self.figures.starved = {
                name: round(self._processor(name).since(processor[name]).starved, 3) for name in services
            }
        time.sleep(SETTLE_S)
        nemesis.until_whole()
        after = self._count()
        self.figures.counted = {name: after[name] - counted[name] for name in after}
        self.figures.elections = self._elections() - elections
        nemesis.hits.append(Hit("starved", "all", at_ns, time.monotonic_ns(), ()))
        nemesis.note(f"counted {self.figures.counted}, {self.figures.elections} elections")
        for name in AFTERWARDS:
            self._phase(name, self._quiet_s)

    def _phase(self, name: str, seconds: float) -> None:
        began = time.monotonic_ns()
        until_at = time.monotonic() + seconds
        while (left_s := until_at - time.monotonic()) > 0 and not self.nemesis.caught():
            time.sleep(min(left_s, 1.0))
        self._phases[name] = began, time.monotonic_ns()

    def _count(self) -> dict[str, int]:
        return count(self.cluster.admin_address(name) for name in (*self.cluster.brokers, *self.cluster.coordinators))

    def _elections(self) -> int:
        topics = (TOPIC, self.nemesis.topic)
        return sum(partition.leader_epoch for topic in topics for partition in self.cluster.describe(topic))

    def _processor(self, name: str) -> Processor:
        return processor_of(self.cluster.nodes[name].pid)

    # ---- clients of the log -----------------------------------------------------------------------------------------

    def _log_client(self, module: str, process: str, *arguments: str) -> Node:
        where = ["--topic", TOPIC, "--bootstrap", self.cluster.bootstrap]
        return self.client(process, int(process[-1]), module, *where, *arguments)


def _best_afterwards(p99_ms: dict[str, float]) -> dict[str, float]:
    """Before, busy and after. The machine has other work, too; a cluster that does not come back is slow each time."""
    after = min(p99_ms.pop(name, math.nan) for name in AFTERWARDS)
    return {**p99_ms, "after": after}


def missed(figures: StarvedFigures, share: float) -> list[str]:
    """In words, what a cluster must not do for being starved, and what was done too little of to mean anything."""
    failures = [
        f"{what}: {number}, and whoever lives keeps what it has"
        for what, number in (
            ("shards given up", figures.counted.get("shards_given_up", -1)),
            ("shards left", figures.counted.get("shards_left", -1)),
            ("shards loaded again", figures.counted.get("shard_loads", -1)),
            ("leases lost", figures.counted.get("leases_lost", -1)),
            ("elections", figures.elections),
        )
        if number != 0
    ]
    for what, p99_ms in (("commits", figures.commit_p99_ms), ("sends", figures.send_p99_ms)):
        slower = p99_ms.get("after", math.nan) / p99_ms.get("before", math.nan)
        if not slower <= MOST_SLOWER:
            failures.append(f"p99 of {what} afterwards: {slower:.2f} times what it was, the bound is {MOST_SLOWER:g}")
    floor = LEAST_ACKNOWLEDGED * min(1.0, share)
    if figures.written.acknowledged < floor:
        failures.append(f"acknowledged: {figures.written.acknowledged}, the floor is {floor:.0f}")
    if not figures.starved or fmean(figures.starved.values()) < LEAST_STARVED:
        failures.append(f"nobody was starved: {figures.starved}, the floor is {LEAST_STARVED:g}")
    return failures


def _told(written: Findings) -> list[tuple[tuple[str, str], int]]:
    return list(written.client_errors.items())
