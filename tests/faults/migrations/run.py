"""One run of the row or of a mutant: members, rounds of harm, a time to settle, and the verdict."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from peers import python_clients
from peers.driver import Driver
from peers.go.driver import franz_go
from peers.java.driver import java_client
from tests.faults.cluster import until
from tests.faults.fault_run import CLIENTS, FACTOR, FaultRun, Result
from tests.faults.groups.cluster import COORDINATORS
from tests.faults.history import read_history
from tests.faults.migrations.checker import MigrationFindings, check
from tests.faults.migrations.cluster import CONFIGS, SESSION_S, MigrationCluster
from tests.faults.migrations.fleet import BY_HAND, Fleet, Role
from tests.faults.migrations.nemesis import MigrationNemesis
from tests.faults.migrations.rows import FRANZ_GO, GROUPS, JAVA, KAFKA_PYTHON, LIBRDKAFKA, MigrationRow
from tests.faults.migrations.writer import RecordWriter

import ottla

TOPIC: Final = "read-by-migrating-groups"
_START_LIMIT_S: Final = 90.0
_READ_LIMIT_S: Final = 60.0
_LOOK_S: Final = 1.0
_OPEN: Final = {
    JAVA: java_client,
    FRANZ_GO: franz_go,
    LIBRDKAFKA: python_clients.confluent,
    KAFKA_PYTHON: python_clients.kafka_python,
}


def clients(roles: tuple[Role, ...]) -> dict[str, Driver]:
    """Install the clients of these roles. Raises PeerError if one can't be installed."""
    wanted = {FRANZ_GO if role.client == BY_HAND else role.client for role in roles}
    return {name: open_client() for name, open_client in _OPEN.items() if name in wanted}


@dataclass(slots=True)
class MigrationResult(Result[MigrationRow]):
    findings: MigrationFindings = field(default_factory=MigrationFindings)
    migrations: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    """Hits, by kind."""

    @property
    def caught(self) -> bool:
        """Whether a finding shows the mutant."""
        kinds = self.row.findings or tuple(self.findings.counts)
        return any(self.findings.counts[kind] for kind in kinds)


class MigrationRun(FaultRun[MigrationResult]):
    cluster: MigrationCluster
    nemesis: MigrationNemesis

    def __init__(self, row: MigrationRow, directory: Path, seed: int, mutant: str = "") -> None:
        super().__init__(MigrationResult(row), directory, coordinators=COORDINATORS)
        self._mutant: Final = mutant
        self.cluster = MigrationCluster(directory / "cluster", self.network, mutant=mutant)
        log, chance = directory / "nemesis.log", f"{seed}-{row.name}"
        self.nemesis = MigrationNemesis(self.cluster, CLIENTS, chance, log, self.history)
        self.nemesis.least_hits = row.least.get("kills", self.nemesis.least_hits)
        if mutant:
            self.nemesis.caught = self._is_caught
        self._writer: Final = RecordWriter(self.history)
        self._look_at = 0.0

    def begin(self) -> None:
        """Start all members, and wait until both groups have shared their partitions."""
        row, admin = self.result.row, self.cluster.admin()
        admin.configs.set(dict(CONFIGS), timeout=10.0)
        admin.topics.create(TOPIC, partitions=row.partitions, replicas=FACTOR, timeout=10.0)
        until(lambda: admin.topics.exists(self.nemesis.topic), "the topic of offsets", _START_LIMIT_S)
        self.nemesis.until_whole()
        options = {"bootstrap": self.cluster.bootstrap, "topic": TOPIC, "session_ms": int(SESSION_S * 1000)}
        fleet = Fleet(self.network, CLIENTS, self.history, clients(row.roles), options)
        self.nemesis.fleet, self.nemesis.roles, self.nemesis.topic_partitions = fleet, row.roles, row.partitions
        fleet.begin(row.roles)
        self._writer.start(self.cluster.bootstrap, TOPIC, row.partitions)
        # A JVM may start slowly, so the groups' time to settle begins when every member has partitions. If a member
        # never gets any, its group is not settled.
        with suppress(TimeoutError):
            until(lambda: self._all_joined() or self.nemesis.caught(), "every member to begin", _START_LIMIT_S)
        self.nemesis.until_settled("the start")

    def come_to_rest(self) -> None:
        """Stop writing, and let the members read what is left and leave."""
        self.nemesis.until_whole()
        self._writer.end()
        fleet = self.nemesis.fleet
        for role in self.result.row.roles:
            if role.client == BY_HAND and any(member.role == role for member in fleet.members):
                fleet.remove(role)
        self.nemesis.until_settled("the end")
        give_up_at = time.monotonic() + _READ_LIMIT_S
        while self._check().counts["lost"] and time.monotonic() < give_up_at:
            time.sleep(1.0)
        fleet.end()
        self.nemesis.close()

    def judge(self, *, share: float) -> None:
        result = self.result
        if hasattr(self.nemesis, "fleet"):  # members are left if the row did not come to its end
            self.nemesis.fleet.end(kill=lambda member: True)
            with suppress(ottla.OttlaError):  # the cluster has gone
                self._writer.end()
        result.findings = self._check()
        result.migrations, result.by_kind = self.nemesis.migrations, dict(self.nemesis.done)
        result.kills = self.nemesis.done.total()
        result.failures += result.findings.examples + result.audit.differences
        result.failures += [] if self._mutant else missed_floors(result)

    def _all_joined(self) -> bool:
        return all(member.partitions for member in self.nemesis.fleet.members)

    def _is_caught(self) -> bool:
        """Whether the mutant was found. It looks only once in a while, because it reads the whole history."""
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + _LOOK_S
        counts = self._check().counts
        return any(counts[kind] for kind in self.result.row.findings if kind != "lost")

    def _check(self) -> MigrationFindings:
        return check(read_history(self.history), GROUPS, SESSION_S)


def missed_floors(result: MigrationResult) -> list[str]:
    """Return a sentence for each floor that was missed."""
    found = result.findings
    did = {
        "kills": result.kills,
        "migrations": result.migrations,
        "rebalances": found.rebalances,
        "commits": found.commits,
        "old_commits": found.old_commits,
        "reads": found.reads,
    }
    return [
        f"{what}: {did[what]}, the floor is {least}" for what, least in result.row.least.items() if did[what] < least
    ]
