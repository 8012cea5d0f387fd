"""One row of groups: members, faults, a time to come to rest, and the check of all that members were told."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.faults.cluster import until
from tests.faults.fault_run import CLIENTS, FACTOR, FaultRun, Result
from tests.faults.gaps import percentile
from tests.faults.groups.checker import GroupChecker, GroupFindings, check
from tests.faults.groups.client import SHARDS
from tests.faults.groups.cluster import COORDINATORS, GroupCluster
from tests.faults.groups.nemesis import GroupNemesis
from tests.faults.groups.notes import GroupNotes
from tests.faults.groups.rows import GOALS_S, GroupRow, Members
from tests.faults.groups.takeovers import Takeovers
from tests.faults.history import HistoryWriter, read_history, read_lines
from tests.faults.node import Node

import ottla
from ottla_core.routing import shard_of

TOPIC: Final = "read-by-groups"
_FLOW_LIMIT_S: Final = 60.0
_SETTLE_LIMIT_S: Final = 60.0
_END_LIMIT_S: Final = 40.0


@dataclass(slots=True)
class GroupResult(Result[GroupRow]):
    findings: GroupFindings = field(default_factory=GroupFindings)
    takeovers: Mapping[str, list[float]] = field(default_factory=dict)
    """Seconds until a shard's groups could commit again, by kind of hit."""

    @property
    def caught(self) -> bool:
        """Whether what members were told is wrong; to be slow or stuck is not enough."""
        return not self.findings.clean


def run_group_row(row: GroupRow, directory: Path, *, seconds: float, seed: int, mutant: str = "") -> GroupResult:
    """Run it for about `seconds`; with a `mutant` only until members were told what is wrong."""
    run = GroupRun(row, directory, seed, mutant)
    if mutant:
        run.nemesis.caught = lambda: not check(read_history(run.history)).clean
    return run.run(seconds)


class GroupRun(FaultRun[GroupResult]):
    nemesis: GroupNemesis
    cluster: GroupCluster

    def __init__(self, row: GroupRow, directory: Path, seed: int, mutant: str) -> None:
        super().__init__(GroupResult(row), directory, coordinators=COORDINATORS)
        self.row: Final = row
        self.cluster = GroupCluster(directory / "cluster", self.network, mutant=mutant)
        self._members = [self._process(n, members, seed) for n, members in enumerate(row.members)]
        restless = [p for p, members in zip(self._members, row.members, strict=True) if members.churn_s > 0]
        self.nemesis = GroupNemesis(self.cluster, CLIENTS, restless, f"{seed}-{row.name}", directory / "nemesis.log")
        self._notes = GroupNotes(HistoryWriter(self.history, "run"), len(self._members))
        self._groups: Final = sorted({group for members in row.members for group in members.groups})

    def begin(self) -> None:
        """Until every group has its members, and they commit."""
        admin = self.cluster.admin()
        admin.topics.create(TOPIC, partitions=self.row.partitions, replicas=FACTOR, timeout=10.0)
        until(lambda: admin.topics.exists(self.nemesis.topic), "the topic of offsets", _FLOW_LIMIT_S)
        self.nemesis.until_whole()
        for group in self.row.idle:
            until(partial(self._commit_idle, group), f"{group} to have offsets", _FLOW_LIMIT_S)
        for process in self._members:
            process.start()
        until(self._all_flow, "every process of members to commit", _FLOW_LIMIT_S)
        until(self._settled, "every group to have all its members", _FLOW_LIMIT_S)

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
        self.until_ended(self._members, _END_LIMIT_S)

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
        at_rest = {g: n for g, n in self._sizes().items() if self.nemesis.hits or not self._is_restless(g)}
        return all(self.cluster.is_settled([group], number) for group, number in at_rest.items())

    def _is_restless(self, group: str) -> bool:
        return any(members.churn_s > 0 for members in self.row.members if group in members.groups)

    def _sizes(self) -> Mapping[str, int]:
        return {g: sum(members.number for members in self.row.members if g in members.groups) for g in self._groups}

    def _process(self, number: int, members: Members, seed: int) -> Node:
        arguments = ["--number", str(number), "--topic", TOPIC, "--seed", str(seed)]
        arguments += ["--members", str(members.number), "--churn", str(members.churn_s)]
        if members.kafka:
            arguments += ["--bootstrap", self.cluster.bootstrap, "--group", *members.groups]
        else:
            arguments += ["--coordinators", self.cluster.coordinator_addresses]
            arguments += ["--groups", ",".join(members.groups), "--partitions", str(self.row.partitions)]
            arguments += ["--also", ",".join(self.row.idle)]
            arguments += ["--tick", str(members.tick_s), "--heartbeat", str(members.heartbeat_s)]
        name, module = ("kafka", "kafka_members") if members.kafka else ("members", "members")
        return self.client(f"{name}-{number}", number, f"groups.{module}", *arguments)

    def judge(self, *, share: float) -> None:
        result, hits = self.result, self.nemesis.hits
        steady = {group: shard_of(group, SHARDS) for group in self._groups if not self._is_restless(group)}
        checker, takeovers = GroupChecker(), Takeovers(steady)
        for operation in read_history(self.history):
            checker.on_operation(operation)
            takeovers.on_operation(operation)
        result.findings, result.takeovers = checker.findings(), takeovers.seconds(hits)
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
