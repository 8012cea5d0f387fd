"""A run of the row or of a mutant starts the clients, restarts services, then reads all topics and judges them."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.cluster import until
from tests.faults.fault_run import CLIENTS, FACTOR, FaultRun, Result
from tests.faults.history import HistoryWriter, read_history
from tests.faults.node import Node
from tests.faults.restarts.application import GROUP
from tests.faults.restarts.checker import (
    RestartFindings,
    check_app,
    check_history,
    check_operations,
    check_query,
)
from tests.faults.restarts.cluster import COORDINATORS, RestartedCluster
from tests.faults.restarts.content import (
    APP_COPIES,
    APP_DEAD,
    APP_SOURCE,
    APP_TARGET,
    KNOWN,
    OPERATIONS,
    QUERY_SOURCE,
    QUERY_TARGET,
    TOPICS,
)
from tests.faults.restarts.drivers import LIVES, Drivers
from tests.faults.restarts.mutants import TRUSTING
from tests.faults.restarts.nemesis import RestartNemesis
from tests.faults.restarts.rows import ADMINISTRATOR, APP, LISTINGS, QUERY, READERS, RestartRow
from tests.faults.spark.copy import PARTITIONS, read_rows, write_rows

import ottla
from ottla_core.model import TopicPartition

_RATES: Final = {QUERY: (QUERY_SOURCE, 15), APP: (APP_SOURCE, 4)}
"""For each client, the topic that it reads, and how many rows a second are written to each of its partitions."""

_APPS: Final = 2
_END_LIMIT_S: Final = 60.0
_SETTLE_LIMIT_S: Final = 400.0
_MUTANT_SETTLES_S: Final = 50.0
_JOIN_LIMIT_S: Final = 180.0
_VALUES_A_LINE: Final = 1_000


@dataclass(slots=True)
class RestartResult(Result[RestartRow]):
    findings: RestartFindings = field(default_factory=RestartFindings)
    restarts: Counter[str] = field(default_factory=Counter)
    drivers: Counter[str] = field(default_factory=Counter)
    """How many lives and deaths the query's driver had, and how often a checkpoint was restored, copied or rejected."""
    second_attempts: int = 0

    @property
    def caught(self) -> bool:
        """Whether the run has one of the findings that this mutant must cause."""
        return any(self.findings.counts[kind] for kind in self.row.findings)


class RestartRun(FaultRun[RestartResult]):
    cluster: RestartedCluster
    nemesis: RestartNemesis

    def __init__(self, row: RestartRow, directory: Path, seed: int, mutant: str = "") -> None:
        super().__init__(RestartResult(row), directory, coordinators=COORDINATORS, txn_coordinators=COORDINATORS)
        self._mutant: Final = mutant
        self.cluster = RestartedCluster(directory / "cluster", self.network, mutant)
        chance, log = f"{seed}-{row.name}", directory / "nemesis.log"
        self.nemesis = RestartNemesis(self.cluster, QUERY_TARGET, PARTITIONS, chance, log)
        self.nemesis.caught = self._is_caught
        apps = [
            self._client(f"app-{number}", number, "application", "--slow-s", str(row.slow_s))
            for number in range(_APPS if APP in row.clients else 0)
        ]
        self.nemesis.apps = apps
        modules = {ADMINISTRATOR: ["administrator"], LISTINGS: ["listings", "--kafka", self.cluster.bootstrap]}
        self._others: Final = [self._client(name, 0, *modules[name]) for name in modules if name in row.clients]
        self._readers: Final = [self._client(READERS, 0, READERS)] if READERS in row.clients else []
        command = [sys.executable, "-m", "tests.faults.restarts.query", "--bootstrap", self.cluster.bootstrap]
        command += ["--history", str(self.history), *(["--trusting"] if mutant == TRUSTING else [])]
        self._drivers: Final = Drivers(self.network, CLIENTS[1], directory / "query", self.history, command, chance)
        self.nemesis.has_lived = self._has_lived
        self._stopping: Final = threading.Event()
        self._threads: Final[list[threading.Thread]] = []
        self._written: Final[Counter[str]] = Counter()
        self._notes: Final = HistoryWriter(self.history, "run")

    def begin(self) -> None:
        admin = self.cluster.admin()
        self.cluster.topics_beside = tuple(set(TOPICS) - {QUERY_TARGET})
        for topic in TOPICS:
            admin.topics.create(topic, partitions=PARTITIONS, replicas=FACTOR, timeout=10.0)
        self.nemesis.until_whole()
        if LISTINGS in self.result.row.clients:
            self._make_known()
        self._feed(self.result.row.backlog)
        for client in (*self.nemesis.apps, *self._others, *self._readers):
            client.start()

    def _make_known(self) -> None:
        with ottla.Admin(self.cluster.bootstrap) as admin:
            for name in KNOWN:
                admin.groups.commit(name, {TopicPartition(OPERATIONS, 0): 0})
                with ottla.Producer[bytes, bytes](self.cluster.bootstrap, transactional_id=name) as producer:
                    producer.init_transactions()

    def harm(self, seconds: float) -> None:
        row = self.result.row
        self._threads.append(threading.Thread(target=self._keep_feeding, name="feeder"))
        if QUERY in row.clients:
            lives = row.lives or LIVES
            self._threads.append(
                threading.Thread(target=self._drivers.run, args=[self._stopping, lives], name="drivers")
            )
        for thread in self._threads:
            thread.start()
        try:
            row.story(self.nemesis, seconds)
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join(_JOIN_LIMIT_S)

    def _keep_feeding(self) -> None:
        due_at = time.monotonic()
        try:
            while not self._stopping.wait(max(0.0, due_at - time.monotonic())):
                due_at = max(due_at + 1.0, time.monotonic())
                self._feed()
        except ottla.OttlaError as error:
            self.nemesis.failures.append(f"rows could not be written: {error}")

    def _feed(self, count: int = 0) -> None:
        """Write `count` rows to each partition, or the rows of one second if it is 0."""
        for client, (topic, rate) in _RATES.items():
            if client in self.result.row.clients:
                write_rows(self.cluster.bootstrap, topic, self._written[client], count or rate)
                self._written[client] += count or rate

    def come_to_rest(self) -> None:
        """Let the clients finish everything that was written, stop them, and read all topics."""
        row = self.result.row
        if stuck := [thread.name for thread in self._threads if thread.is_alive()]:
            raise RuntimeError(f"{', '.join(stuck)} did not end within {_JOIN_LIMIT_S:g} s")
        self.nemesis.until_whole()
        if QUERY in row.clients:
            self._drivers.finish()
        if APP in row.clients:
            self._settle(self._is_handled, "the App to handle everything")
        self._end([*self.nemesis.apps, *self._others])
        # The transaction of an App that was killed hides later rows until it times out.
        self._settle(lambda: self.is_stable(*TOPICS), "transactions to end")
        self._read_all()
        self._end(self._readers)  # by now they have read what the transactions had hidden

    def _end(self, clients: Sequence[Node]) -> None:
        for client in clients:
            client.terminate()
        self.until_ended(clients, _END_LIMIT_S)

    def _settle(self, has_settled: Callable[[], bool], what: str) -> None:
        """Wait until the clients' work `has_settled`. If it never does, the checker finds the rows as lost."""
        try:
            until(has_settled, what, _MUTANT_SETTLES_S if self._mutant else _SETTLE_LIMIT_S)
        except TimeoutError as error:
            self._notes.add("info", "unsettled", error=str(error))

    def _is_handled(self) -> bool:
        try:
            committed = self.cluster.admin().groups.committed(GROUP, if_missing="ok")
        except ottla.OttlaError:
            return False
        return sum(committed.values()) >= PARTITIONS * self._written[APP]

    def _read_all(self) -> None:
        """Read and check all topics, and note their rows in the history so that others can check them."""
        findings, clients = self.result.findings, self.result.row.clients
        rows = {topic: list(read_rows(self.cluster.bootstrap, topic)) for topic in TOPICS}
        for topic, found in rows.items():
            values = [(value or b"").decode() for _, value in found]
            for start in range(0, len(values), _VALUES_A_LINE):
                self._notes.add("ok", "final", topic=topic, values=values[start : start + _VALUES_A_LINE])
        self._notes.close()
        values_of = {topic: Counter(value or b"" for _, value in found) for topic, found in rows.items()}
        if QUERY in clients:
            check_query(rows[QUERY_TARGET], self._written[QUERY], findings)
        if APP in clients:
            app_values = {topic: values_of[topic] for topic in (APP_TARGET, APP_COPIES, APP_DEAD)}
            check_app(app_values, self._written[APP], findings)
        check_operations(values_of[OPERATIONS], read_history(self.history), findings)

    def _is_caught(self) -> bool:
        """Whether the clients' notes already show one of the findings that this mutant must cause."""
        findings = RestartFindings()
        if self._mutant:
            check_history(read_history(self.history), findings)
        return any(findings.counts[kind] for kind in self.result.row.findings)

    def _has_lived(self) -> bool:
        """Return whether the query's driver has lived and died as often as the row demands, or has failed."""
        counts, wanted = self._drivers.counts, self.result.row.has_lived
        return bool(self._drivers.failures) or all(counts[what] >= least for what, least in wanted.items())

    def judge(self, *, share: float) -> None:
        self._stopping.set()
        self._drivers.kill()
        result = self.result
        check_history(read_history(self.history), result.findings)
        if not result.findings.clean:
            result.failures.append(f"found: {dict(+result.findings.counts)}")
        if not self.complete:
            result.failures.append("the topics were not read at the end of the run")
        result.restarts, result.drivers = self.nemesis.restarts, self._drivers.counts
        result.kills = result.restarts.total()
        result.second_attempts = self._drivers.second_attempts()
        result.failures += self._drivers.failures + result.findings.examples + result.audit.differences

    def _client(self, name: str, number: int, module: str, *arguments: str) -> Node:
        command = [sys.executable, "-m", "tests.faults.restarts.launch", self._mutant or "none"]
        command += [f"tests.faults.restarts.{module}", "--process", name, "--history", str(self.history)]
        command += ["--bootstrap", self.cluster.bootstrap, *arguments]
        where = CLIENTS[number % len(CLIENTS)]
        node = Node(name, self.network.command(where, command), self.cluster.directory / f"{name}.log")
        self.clients.append(node)
        return node
