"""One run of a row, or of a mutant: producers, a reader, harm; then everything is read, and the verdict."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.cluster import until
from tests.faults.fault_run import CLIENTS, FACTOR, FaultRun, Result
from tests.faults.history import HistoryWriter, read_history, read_lines
from tests.faults.node import Node
from tests.faults.transactions.checker import COMMITTED, UNCOMMITTED, TransactionFindings, check
from tests.faults.transactions.client import PARTITIONS
from tests.faults.transactions.cluster import COORDINATORS, TransactionCluster
from tests.faults.transactions.nemesis import ProducerNode, TransactionNemesis
from tests.faults.transactions.pace import ended
from tests.faults.transactions.producers import SOURCE, TIMEOUT_S
from tests.faults.transactions.reader import PASS
from tests.faults.transactions.rows import THREADS, TransactionRow

import ottla

_FLOW_LIMIT_S: Final = 120.0
_END_LIMIT_S: Final = 120.0
_READ_LIMIT_S: Final = 120.0
_MORE_S: Final = 20.0


@dataclass(slots=True)
class TransactionResult(Result[TransactionRow]):
    findings: TransactionFindings = field(default_factory=TransactionFindings)
    steps: Counter[str] = field(default_factory=Counter)
    """Kills, by step or by kind of service."""
    cuts: Counter[str] = field(default_factory=Counter)
    epoch_wraps: int = 0
    zombies: int = 0
    replayed: int = 0

    @property
    def caught(self) -> bool:
        """Whether what was read is wrong, or blocked; that a service was slow, or a step never came, is not enough."""
        return not self.findings.clean


class TransactionRun(FaultRun[TransactionResult]):
    """The harm goes on until `least` transactions have ended, but not beyond `give_up_at`, by time.monotonic()."""

    cluster: TransactionCluster
    nemesis: TransactionNemesis

    def __init__(
        self,
        row: TransactionRow,
        directory: Path,
        seed: int,
        mutant: str = "",
        *,
        least: int = 0,
        give_up_at: float = 0.0,
    ) -> None:
        super().__init__(TransactionResult(row), directory, coordinators=COORDINATORS, txn_coordinators=COORDINATORS)
        self._seed: Final = seed
        self._least: Final = least
        self._give_up_at: Final = give_up_at
        where = directory / "cluster"
        self.cluster = TransactionCluster(
            where, self.network, mode=row.mode, mutant=mutant, first_epoch=row.first_epoch
        )
        log, chance = directory / "nemesis.log", f"{seed}-{row.name}"
        self.nemesis = TransactionNemesis(self.cluster, PARTITIONS[0][0], 3, CLIENTS, chance, log)
        producers = [self._producer(kind, 0) for kind in row.kinds]
        rivals = [self._producer(kind, 1) for kind in row.kinds] if row.rivals else []
        self.nemesis.prepare(producers, rivals, self._inits, self._read_pass)
        self._reader: Final = self._new_reader("reader-0")
        self._notes: Final = HistoryWriter(self.history, "run")
        self._first_ids: dict[str, int] = {}

    def begin(self) -> None:
        self.cluster.topics_beside = tuple({topic for topic, _ in PARTITIONS} - {PARTITIONS[0][0]})
        for topic in (*self.cluster.topics_beside, PARTITIONS[0][0]):
            self.cluster.admin().topics.create(topic, partitions=3, replicas=FACTOR, timeout=10.0)
        self.cluster.admin().topics.create(SOURCE, partitions=1, replicas=FACTOR, timeout=10.0)
        self.nemesis.until_whole()
        for producer in self.nemesis.producers:
            producer.start()
        self._reader.start()
        started = "every producer to take its id"
        until(lambda: all(self._inits(each) >= THREADS for each in self.nemesis.producers), started, _FLOW_LIMIT_S)
        self._first_ids = self.cluster.producer_ids()

    def harm(self, seconds: float) -> None:
        row = self.result.row
        row.story(self.nemesis, seconds)
        while ended(self.history, row.kinds) < self._least and time.monotonic() < self._give_up_at:
            row.story(self.nemesis, _MORE_S)

    def come_to_rest(self) -> None:
        """Nothing is open after twice the timeout; then all is read, and where each group has come to."""
        self.nemesis.until_whole()
        self._end(self.nemesis.producers)
        until_at = time.monotonic() + 2 * TIMEOUT_S
        while (unfinished := self._unfinished()) and time.monotonic() < until_at:
            time.sleep(0.2)
        for what in unfinished:
            self._notes.add("ok", "hanging", what=what)
        finals = [self._new_reader(COMMITTED), self._new_reader(UNCOMMITTED, "--isolation", "read_uncommitted")]
        for reader in finals:
            reader.start()
        self.until_ended(finals, _READ_LIMIT_S)
        self._end([self._reader])
        self._note_offsets()
        ids = self.cluster.producer_ids()
        self.result.epoch_wraps = sum(ids.get(name) != number for name, number in self._first_ids.items())
        self.result.replayed = self.cluster.replayed()
        self._notes.close()

    def _note_offsets(self) -> None:
        for kind in self.result.row.kinds:
            for number in range(THREADS):
                name = f"{kind}.{number}"
                try:
                    self._notes.add("ok", "offsets", id=name, offset=self.cluster.committed(name))
                except ottla.OttlaError as error:
                    self._notes.add("ok", "hanging", what=f"the offsets of {name}: {error}")

    def _unfinished(self) -> list[str]:
        try:
            return self.cluster.unfinished()
        except ottla.OttlaError as error:
            return [f"what is open is not known: {error}"]

    def _end(self, clients: Sequence[Node]) -> None:
        for client in clients:
            client.terminate()
        self.until_ended(clients, _END_LIMIT_S)

    def _read_pass(self, number: int) -> None:
        reader = self._new_reader(f"{PASS}{number}")
        reader.start()
        self.until_ended([reader], _READ_LIMIT_S)

    def _inits(self, producer: Node) -> int:
        return sum(operation["f"] == "init" for operation in read_lines(self.history, producer.name))

    def _producer(self, kind: str, number: int) -> Node:
        name = f"{kind}-{number}"
        command = [sys.executable, "-m", "tests.faults.transactions.client", "--process", name]
        command += ["--history", str(self.history), "--kind", kind, "--bootstrap", self.cluster.bootstrap]
        command += ["--threads", str(THREADS), "--seed", str(self._seed)]
        command += ["--once"] if self.result.row.rivals else []
        command += ["--kinds", *self.result.row.kinds]
        where = self.network.command(CLIENTS[number], command)
        node = ProducerNode(name, where, self.cluster.directory / f"{name}.log")
        self.clients.append(node)
        return node

    def _new_reader(self, name: str, *arguments: str) -> Node:
        return self.client(name, 0, "transactions.reader", "--bootstrap", self.cluster.bootstrap, *arguments)

    def judge(self, *, share: float) -> None:
        result, nemesis = self.result, self.nemesis
        result.steps, result.cuts, result.zombies = nemesis.kills, nemesis.cuts, nemesis.zombies
        result.kills = nemesis.kills.total()
        if self.complete:
            result.findings = check(read_history(self.history))
        else:
            result.failures.append("what is there in the end was not read")
        result.failures += result.findings.examples + result.audit.differences
