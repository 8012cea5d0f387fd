"""One row of groups from a fresh cluster to a verdict: members, faults, a time to come to rest, a stop, the check."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.faults.audit import AuditResult, compare_replicas
from tests.faults.cluster import BROKERS, CONTROLLERS, ETCD, until
from tests.faults.gaps import percentile
from tests.faults.groups.checker import GroupChecker, GroupFindings
from tests.faults.groups.cluster import COORDINATORS, SHARDS, GroupCluster
from tests.faults.groups.nemesis import GroupNemesis
from tests.faults.groups.notes import GroupNotes
from tests.faults.groups.rows import GOALS_S, GroupRow, Members
from tests.faults.groups.takeovers import Takeovers
from tests.faults.history import HistoryWriter, read_history, read_lines
from tests.faults.network import Network
from tests.faults.node import Node
from tests.faults.row_run import names

import ottla
from ottla_core.routing import shard_of

TOPIC: Final = "read-by-groups"
FACTOR: Final = 3
CLIENTS: Final = ("client-0", "client-1")
LAG_MAX_MS: Final = 3000
_FLOW_LIMIT_S: Final = 60.0
_SETTLE_LIMIT_S: Final = 60.0
_END_LIMIT_S: Final = 40.0


@dataclass(slots=True)
class GroupResult:
    row: GroupRow
    seconds: float = 0.0
    findings: GroupFindings = field(default_factory=GroupFindings)
    audit: AuditResult = field(default_factory=AuditResult)
    takeovers: Mapping[str, list[float]] = field(default_factory=dict)
    """Seconds until a shard's groups could commit again, by kind of hit."""
    hits: int = 0
    kills: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def caught(self) -> bool:
        """Whether what members were told is wrong; to be slow or stuck is not enough."""
        return not self.findings.clean


def run_group_row(row: GroupRow, directory: Path, *, seconds: float, seed: int, mutant: str = "") -> GroupResult:
    """Run it for about `seconds`. Whatever goes wrong is in the result's failures; nothing is left running."""
    result = GroupResult(row)
    began = time.monotonic()
    services = [*names("controller", CONTROLLERS), *names("broker", BROKERS), *names("coordinator", COORDINATORS)]
    network = Network([ETCD, *services, *CLIENTS])
    run = _GroupRun(row, directory, network, seed, mutant)
    network.start()
    try:
        run.nemesis_for(seconds)
        run.come_to_rest()
        run.cluster.stop()
        result.audit = compare_replicas(run.cluster.data_dirs, factor=FACTOR)
    except (TimeoutError, RuntimeError, ottla.OttlaError) as error:
        result.failures.append(f"{type(error).__name__}: {error}")
    finally:
        run.end()
        network.stop()
    _judge(result, run, share=seconds / (row.minutes * 60))
    if not result.failures:
        for data_dir in run.cluster.data_dirs:
            shutil.rmtree(data_dir)
    result.seconds = time.monotonic() - began
    return result


class _GroupRun:
    def __init__(self, row: GroupRow, directory: Path, network: Network, seed: int, mutant: str) -> None:
        self.row: Final = row
        self.history: Final = directory / "history"
        self.history.mkdir(parents=True)
        self.cluster: Final = GroupCluster(directory / "cluster", network, mutant=mutant)
        self._network = network
        self._seed = seed
        self._members = [self._process(n, members) for n, members in enumerate(row.members)]
        restless = [p for p, members in zip(self._members, row.members, strict=True) if members.churn_s > 0]
        self.nemesis: Final = GroupNemesis(
            self.cluster, CLIENTS, restless, f"{seed}-{row.name}", directory / "nemesis.log"
        )
        self._notes = GroupNotes(HistoryWriter(self.history, "run"), len(self._members))
        self.groups: Final = sorted({group for members in row.members for group in members.groups})

    def nemesis_for(self, seconds: float) -> None:
        """Start everything, do harm for so long, and undo it."""
        self.cluster.start()
        admin = self.cluster.admin()
        admin.configs.set({"replica.lag.time.max.ms": LAG_MAX_MS}, timeout=10.0)
        admin.topics.create(TOPIC, partitions=self.row.partitions, replicas=FACTOR, timeout=10.0)
        until(lambda: admin.topics.exists(self.nemesis.topic), "the topic of offsets", _FLOW_LIMIT_S)
        self.nemesis.until_whole()
        for group in self.row.idle:
            until(partial(self._commit_idle, group), f"{group} to have offsets", _FLOW_LIMIT_S)
        for process in self._members:
            process.start()
        until(self._all_flow, "every process of members to commit", _FLOW_LIMIT_S)
        until(self._settled, "every group to have all its members", _FLOW_LIMIT_S)
        try:
            self.row.run(self.nemesis, time.monotonic() + seconds)
        except (TimeoutError, ottla.OttlaError) as error:
            self.nemesis.failures.append(f"the faults ended early: {error}")
            self.cluster.recover()

    def come_to_rest(self) -> None:
        """Members behave; every group has to become stable with all of them, and with nobody else."""
        self.nemesis.until_whole()
        for process in self._members:
            process.send(signal.SIGUSR1)
        try:
            until(self._settled, "every group to come to rest", _SETTLE_LIMIT_S)
        except TimeoutError:
            for group, number in self._sizes().items():
                if not self.cluster.is_settled([group], number):
                    self._notes.told("unsettled", group, f"{self.cluster.tell(group)}, of {number}")
        for process in self._members:
            process.terminate()
        for process in self._members:
            if (code := process.wait(_END_LIMIT_S)) != 0:
                self.nemesis.failures.append(f"{process.name} ended with {code}; its log lies beside the brokers'")

    def end(self) -> None:
        for process in self._members:
            process.kill()
        self.cluster.kill()

    def _commit_idle(self, group: str) -> bool:
        """Nobody's commit, of a group that has no members."""
        offsets = {partition: self._notes.fresh_value() for partition in range(self.row.partitions)}
        number = self._notes.committing(group, "", None, offsets)
        try:
            self.cluster.commit(group, TOPIC, offsets)
        except ottla.OttlaError as error:
            self._notes.not_committed(number, group, error, refused=False)
            return False
        self._notes.committed(number, group)
        return True

    def _all_flow(self) -> bool:
        return all(
            {op["group"] for op in read_lines(self.history, process.name) if (op["f"], op["type"]) == ("commit", "ok")}
            >= set(members.groups)
            for process, members in zip(self._members, self.row.members, strict=True)
        )

    def _settled(self) -> bool:
        """Groups of members that come and go are hardly ever at rest before they are told to be."""
        at_rest = {g: n for g, n in self._sizes().items() if self.nemesis.hits or not self.is_restless(g)}
        return all(self.cluster.is_settled([group], number) for group, number in at_rest.items())

    def is_restless(self, group: str) -> bool:
        return any(members.churn_s > 0 for members in self.row.members if group in members.groups)

    def _sizes(self) -> Mapping[str, int]:
        return {g: sum(members.number for members in self.row.members if g in members.groups) for g in self.groups}

    def _process(self, number: int, members: Members) -> Node:
        name = f"{'kafka' if members.kafka else 'members'}-{number}"
        module = "kafka_members" if members.kafka else "members"
        command = [sys.executable, "-m", f"tests.faults.groups.{module}", "--process", name, "--number", str(number)]
        command += ["--topic", TOPIC, "--members", str(members.number), "--churn", str(members.churn_s)]
        command += ["--seed", str(self._seed), "--history", str(self.history)]
        if members.kafka:
            command += ["--bootstrap", self.cluster.kafka_bootstrap, "--group", *members.groups]
        else:
            command += ["--brokers", self.cluster.bootstrap, "--coordinators", self.cluster.coordinator_addresses]
            command += ["--groups", ",".join(members.groups), "--partitions", str(self.row.partitions)]
            command += ["--also", ",".join(self.row.idle)]
            command += ["--tick", str(members.tick_s), "--heartbeat", str(members.heartbeat_s)]
        where = CLIENTS[number % len(CLIENTS)]
        return Node(name, self._network.command(where, command), self.cluster.directory / f"{name}.log")


def _judge(result: GroupResult, run: _GroupRun, *, share: float) -> None:
    """Check the history, and hold everything against the goals and this row's floors."""
    nemesis = run.nemesis
    result.hits, result.kills = len(nemesis.hits), nemesis.leader_kills
    result.failures += nemesis.failures
    steady = {group: shard_of(group, SHARDS) for group in run.groups if not run.is_restless(group)}
    checker, takeovers = GroupChecker(), Takeovers(steady)
    for operation in read_history(run.history):
        checker.on_operation(operation)
        takeovers.on_operation(operation)
    result.findings, result.takeovers = checker.findings(), takeovers.seconds(nemesis.hits)
    result.failures += result.findings.examples + result.audit.differences
    result.failures += missed_takeovers(result.takeovers) + missed_group_floors(result, share)


def missed_takeovers(takeovers: Mapping[str, list[float]]) -> list[str]:
    """In words, the kinds of hit after which groups had to wait for too long."""
    return [
        f"{kind}: p99 is {measured:.2f} s, the goal {goal_s:g} s"
        for kind, goal_s in GOALS_S.items()
        if (measured := percentile(takeovers.get(kind, ()), 0.99)) > goal_s
    ]


def missed_group_floors(result: GroupResult, share: float) -> list[str]:
    """In words, what was done too little of to mean anything; `share` of the row's time is what can be asked for."""
    found = result.findings
    did = {
        "kills": result.kills,
        "rebalances": found.rebalances,
        "commits": found.commits,
        "fetches": found.fetches,
    }
    return [
        f"{what}: {did[what]}, the floor is {least * min(1.0, share):.0f}"
        for what, least in result.row.least.items()
        if did[what] < int(least * min(1.0, share))
    ]
