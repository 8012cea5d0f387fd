"""One run of the row, or of a mutant: writers, readers, kills; then the table on every replica, and the verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.faults.audit import AuditResult
from tests.faults.cluster import until
from tests.faults.compacted.checker import ONCE, TRANSACTIONAL, Findings, Horizons, TableChecker, Told
from tests.faults.compacted.cluster import OFFSETS_TOPIC, SHARDS, CompactedCluster
from tests.faults.compacted.nemesis import CompactedNemesis
from tests.faults.compacted.phases import STEPS
from tests.faults.compacted.records import send
from tests.faults.compacted.replicas import Replica, fences_in
from tests.faults.compacted.rows import CompactedRow
from tests.faults.fault_run import CLIENTS, FaultRun, Result
from tests.faults.history import FINAL, HistoryWriter, Name, read_history, read_lines
from tests.faults.node import Node

import ottla
from ottla_core.routing import shard_of

TOPIC: Final = "table"
PARTITIONS: Final = 3
DELETE_RETENTION_MS: Final = 30_000
_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": 20_000,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": DELETE_RETENTION_MS,
}
_OFFSETS_CONFIG: Final = {"segment.bytes": 4_000, "min.cleanable.dirty.ratio": 0}
_GROUPS: Final = [next(g for g in map(str, range(100)) if shard_of(g, SHARDS) == shard) for shard in range(SHARDS)]
"""One in each shard."""

_COMMITS: Final = 5
_TAKEOVER_EVERY: Final = 15
_RATE: Final = 300.0
_FLOW_LIMIT_S: Final = 30.0
_END_LIMIT_S: Final = 120.0
_FINAL_LIMIT_S: Final = 20.0
_CLEAN_LIMIT_S: Final = 60.0
_QUIET_S: Final = 2.0


@dataclass(slots=True)
class CompactedResult(Result[CompactedRow]):
    findings: Findings = field(default_factory=Findings)
    cleanings: int = 0
    phases: dict[str, int] = field(default_factory=dict)

    @property
    def caught(self) -> bool:
        """Whether the broken rule shows in what clients or replicas have."""
        return any(self.findings.counts[kind] for kind in self.row.findings)


class CompactedRun(FaultRun[CompactedResult]):
    nemesis: CompactedNemesis
    cluster: CompactedCluster

    def __init__(self, row: CompactedRow, directory: Path, seed: int, mutant: str = "") -> None:
        super().__init__(CompactedResult(row), directory, coordinators=1, txn_coordinators=1)
        self.cluster = CompactedCluster(directory / "cluster", self.network, mutant=mutant)
        log = directory / "nemesis.log"
        self.nemesis = CompactedNemesis(self.cluster, TOPIC, PARTITIONS, CLIENTS, f"{seed}-{row.name}", log)
        self.nemesis.prepare()
        self.nemesis.logs = PARTITIONS + SHARDS
        self.nemesis.between = self._between
        self.nemesis.end_writers = self._kill_writers
        of_all = ["--partitions", str(PARTITIONS)]
        self._writers = [self._client("writer", f"w{n}", *of_all, "--rate", str(_RATE)) for n in range(2)]
        self._writers += [self._client("transactional", f"{TRANSACTIONAL}{n}", *of_all) for n in range(2)]
        self._readers = [self._client("reader", f"r{n}", "--rack", f"rack-{n}") for n in range(2)]
        self._finals = [self._client("reader", f"{FINAL}{n}", "--rack", f"rack-{n}", "--passes", "1") for n in range(3)]
        self._fences: Final[dict[str, int]] = {}
        self._names: dict[int, str] = {}
        self._shards: list[str] = []
        self._replicas: dict[str, dict[int, Replica]] = {}
        self._committed = 0
        self._once = 0
        self._ended_ns = 0
        self._unread: list[str] = []

    def _client(self, module: str, process: str, *arguments: str) -> Node:
        where = ["--topic", TOPIC, "--bootstrap", self.cluster.bootstrap]
        return self.client(process, int(process[-1]), f"compacted.{module}", *where, *arguments)

    # ---- the course of it -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Until all write, read and commit, and every shard has its first fence."""
        admin = self.cluster.admin()
        admin.configs.set({"log.cleaner.backoff.ms": 100, "log.cleaner.enable": False}, timeout=10.0)
        self.make_topic(TOPIC, PARTITIONS, min_insync_replicas=2, **_CONFIG)
        for client in (*self._writers, *self._readers):
            client.start()
        until(self._commit, "a group to be committed for", _FLOW_LIMIT_S)
        admin.configs.set(_OFFSETS_CONFIG, topic=OFFSETS_TOPIC, timeout=10.0)
        self._names = {p: self.cluster.partition_name(TOPIC, p) for p in range(PARTITIONS)}
        self._shards = [self.cluster.partition_name(OFFSETS_TOPIC, p) for p in range(SHARDS)]
        self._note_fences()
        flow = partial(self.all_acknowledged, self._writers, PARTITIONS)
        until(flow, "every writer to be acknowledged in every partition", _FLOW_LIMIT_S)

    def harm(self, seconds: float) -> None:
        self.result.row.story(self.nemesis, seconds)

    def come_to_rest(self) -> None:
        """All that is dirty is clean on every replica; then each is read to its end."""
        self._end(self._writers)
        self.cluster.until_whole(TOPIC)
        until(lambda: self.is_stable(TOPIC), "transactions to end", _END_LIMIT_S)
        self._wait_for_cleaners()
        for reader in self._readers:
            self._until_passed(reader, self._passes(reader) + 1)
        self._end(self._readers)
        for final in self._finals:
            final.start()
        for final in self._finals:
            self._until_passed(final, 1)
            final.kill()
        self._ended_ns = time.monotonic_ns()

    def _until_passed(self, reader: Node, passes: int) -> None:
        """No broker is harmed any more: what is there can be read to its end."""
        what = f"{reader.name} to come to the end of the topic"
        try:
            until(lambda: self._passes(reader) >= passes, what, _FINAL_LIMIT_S)
        except TimeoutError as error:
            self._unread.append(str(error))

    def _passes(self, reader: Node) -> int:
        """How many it has finished."""
        return sum(operation["f"] == "pass" for operation in read_lines(self.history, reader.name))

    def _wait_for_cleaners(self) -> None:
        """Until none has done anything for a while."""
        cleanings, quiet_at = -1, time.monotonic() + _CLEAN_LIMIT_S

        def are_quiet() -> bool:
            nonlocal cleanings, quiet_at
            if (count := sum(1 for _ in self.cluster.cleanings())) != cleanings:
                cleanings, quiet_at = count, time.monotonic() + _QUIET_S
            return time.monotonic() > quiet_at

        until(are_quiet, "the cleaners to be done", _CLEAN_LIMIT_S)

    def _end(self, clients: list[Node]) -> None:
        for client in clients:
            client.terminate()
        self.until_ended(clients, _END_LIMIT_S)

    def _kill_writers(self) -> None:
        for writer in self._writers:
            writer.kill()
        self._writers.clear()

    # ---- between two kills ----------------------------------------------------------------------------------------

    def _between(self) -> None:
        """A producer that writes once and stays away, and commits; sometimes a shard gets a new owner."""
        self._write_once()
        until(self._commit, "the groups to be committed for", _FLOW_LIMIT_S)
        if self._once % _TAKEOVER_EVERY == 0:
            self.nemesis.kill(*self.cluster.coordinators)
            self.nemesis.start(*self.cluster.coordinators)
            self.nemesis.until_whole()
            until(self._commit, "the groups to be committed for again", _FLOW_LIMIT_S)
            self._note_fences()
            until(self._commit_past_fences, "the shards' fences to be in segments that are cleaned", _FLOW_LIMIT_S)

    def _write_once(self) -> None:
        self._once += 1
        history = HistoryWriter(self.history, f"{ONCE}{self._once}")
        names = [Name(history.process, partition, 1) for partition in range(PARTITIONS)]
        with ottla.Producer[Any, Any](self.cluster.bootstrap, topic=TOPIC, key="bytes", value="bytes") as producer:
            for name in names:
                history.add("invoke", "send", partition=name.partition, first=name.number, count=1)
            sent = [send(producer, name) for name in names]
            for name, delivery in zip(names, sent, strict=True):
                at = delivery.result(_FLOW_LIMIT_S).offset
                history.add("ok", "send", partition=name.partition, first=name.number, count=1, offset=at)
        history.close()

    def _commit(self) -> bool:
        offsets = {ottla.TopicPartition(TOPIC, partition): self._once for partition in range(PARTITIONS)}
        try:
            for group in _GROUPS:
                for _ in range(_COMMITS):
                    self.cluster.admin().groups.commit(group, offsets)
        except ottla.OttlaError as error:
            self.nemesis.note(f"commit refused: {error}")
            return False
        self._committed = self._once
        return True

    def _note_fences(self) -> None:
        self._fences |= {name: self.cluster.newest_fence(name) for name in self._shards}

    def _commit_past_fences(self) -> bool:
        """The segment in which a log is written is not cleaned: whatever is done to a fence there would not show."""
        return self._commit() and all(self.cluster.active_segment(n) > fence for n, fence in self._fences.items())

    # ---- the verdict ----------------------------------------------------------------------------------------------

    def audit(self) -> AuditResult:
        """Logs that each replica has cleaned by itself differ; the verdict holds them against what was acknowledged."""
        self._replicas = self.cluster.replicas(self._names)
        partitions = [replica for replicas in self._replicas.values() for replica in replicas.values()]
        return AuditResult(len(partitions), sum(len(replica.batches) for replica in partitions))

    def judge(self, *, share: float) -> None:
        result, nemesis = self.result, self.nemesis
        result.phases = {phase: nemesis.kills[phase] for phase in STEPS}
        result.kills = nemesis.kills.total()
        if not self.complete:
            result.failures.append("without the replicas there is nothing to check")
            return
        horizons = Horizons(self.cluster.cleanings(), DELETE_RETENTION_MS)
        result.cleanings = horizons.count
        checker = TableChecker(Told(read_history(self.history)), horizons, self._names, self._replicas)
        checker.check_replicas(self._ended_ns)
        try:
            checker.check_fences(self._fences, self._found_fences())
        except ValueError as error:
            checker.findings.add("corrupted", str(error))
        for operation in read_history(self.history):
            checker.on_operation(operation)
        for what in self._unread:
            checker.findings.add("unreadable", what)
        result.findings = checker.findings
        result.failures += result.findings.examples

    def _found_fences(self) -> dict[str, dict[str, list[int]]]:
        return {d.name: {name: fences_in(d / name) for name in self._shards} for d in self.cluster.data_dirs}
