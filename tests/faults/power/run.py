"""One run: writers, a reader, kills and power cuts; then everything is read, also by a replica on a new disk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from tests.faults.audit import AuditResult
from tests.faults.cluster import until
from tests.faults.compacted.checker import Told
from tests.faults.compacted.records import send
from tests.faults.compacted.transactional import TIMEOUT_S
from tests.faults.fault_run import CLIENTS, FACTOR, FaultRun, Result
from tests.faults.history import HistoryWriter, Name, read_history
from tests.faults.node import Node
from tests.faults.power.checker import MOST_ENDED, Policy, PowerFindings, SeamsChecker
from tests.faults.power.cluster import SHARDS, PowerCluster
from tests.faults.power.nemesis import PowerNemesis
from tests.faults.power.replicas import StoredReplica, ended_in, read_replica
from tests.faults.power.rows import LEAST_HITS, LEAST_HITS_OF_A_MUTANT, PowerRow
from tests.faults.power.standstill import standstill

import ottla
from ottla_core.errors import ErrorCode
from ottla_core.routing import shard_of


class Topic(NamedTuple):
    partitions: int
    policy: Policy
    configs: Mapping[str, object]
    rate: float


TABLE, WINDOW, LEDGER, EMPTIED = "table", "window", "ledger", "emptied"
_LATE_MS: Final = 60_000
"""How much older records are than their appends (compacted.records)."""
_SMALL: Final = {"segment.bytes": 12_000, "min.cleanable.dirty.ratio": 0.1, "delete.retention.ms": 30_000}
TOPICS: Final = MappingProxyType(
    {
        TABLE: Topic(2, Policy(compact=True, delete=False), {"cleanup.policy": "compact", **_SMALL}, 40.0),
        WINDOW: Topic(
            1,
            Policy(compact=True, delete=True),
            {"cleanup.policy": "compact,delete", **_SMALL, "retention.ms": _LATE_MS + 15_000, "flush.ms": 1_000},
            20.0,
        ),
        LEDGER: Topic(
            1,
            Policy(compact=False, delete=True),
            {"segment.bytes": 16_000, "retention.ms": _LATE_MS + 60_000, "flush.ms": 3_000},
            20.0,
        ),
    }
)
_EMPTIED_CONFIG: Final = {"min.insync.replicas": 1, "unclean.leader.election.enable": "true"}
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_INTERNAL_CONFIG: Final = {"segment.bytes": 4_000, "min.cleanable.dirty.ratio": 0.1}
_GROUPS: Final = [next(g for g in map(str, range(100)) if shard_of(g, SHARDS) == shard) for shard in range(SHARDS)]
_COMMITS: Final = 5
_FLOW_LIMIT_S: Final = 60.0
_END_LIMIT_S: Final = 120.0
_READ_LIMIT_S: Final = 30.0
_NEW_DISK_LIMIT_S: Final = 60.0
_DELETE_EVERY: Final = 6


@dataclass(slots=True)
class PowerResult(Result[PowerRow]):
    findings: PowerFindings = field(default_factory=PowerFindings)
    kinds: dict[str, int] = field(default_factory=dict)
    power_cuts: int = 0
    lost_bytes: int = 0
    cleanings: int = 0
    elections: int = 0

    @property
    def caught(self) -> bool:
        """Whether the broken rule shows in what clients or replicas have."""
        return self.findings.counts[self.row.finding] > 0


class PowerRun(FaultRun[PowerResult]):
    cluster: PowerCluster
    nemesis: PowerNemesis

    def __init__(self, row: PowerRow, directory: Path, seed: int, mutant: str = "") -> None:
        super().__init__(PowerResult(row), directory, coordinators=1, txn_coordinators=1)
        self.cluster = PowerCluster(directory / "cluster", self.network, mutant=mutant)
        self.cluster.topics_beside = (WINDOW, LEDGER, EMPTIED, *INTERNAL)
        log = directory / "nemesis.log"
        self.nemesis = PowerNemesis(self.cluster, TABLE, TOPICS[TABLE].partitions, CLIENTS, f"{seed}-{row.name}", log)
        self.nemesis.prepare([*TOPICS, EMPTIED, *INTERNAL], EMPTIED, self._between, f"{seed}-cuts")
        self._writers: Final = [
            self._client("writer", f"{name}-w0", topic, "--rate", str(topic.rate)) for name, topic in TOPICS.items()
        ]
        self._writers += [
            self._client("transactional", f"{name}-tx0", TOPICS[name], "--pause", "0.3") for name in (TABLE, LEDGER)
        ]
        self._readers: Final = [
            self.client(f"{TABLE}-r0", 1, "compacted.reader", "--topic", TABLE, "--bootstrap", self.cluster.bootstrap)
        ]
        self._notes: Final = HistoryWriter(self.history, f"{LEDGER}-open")
        self._checker: Final = SeamsChecker()
        self._names: dict[str, list[str]] = {}
        self._replicas: dict[str, list[list[StoredReplica]]] = {}
        self._read: dict[tuple[str, str], dict[tuple[int, int], Any]] = {}
        self._starts: dict[str, dict[int, int]] = {}
        self._rounds = 0
        self._committed = 0

    def _client(self, module: str, process: str, topic: Topic, *arguments: str) -> Node:
        name = process.partition("-")[0]
        where = ["--topic", name, "--bootstrap", self.cluster.bootstrap, "--partitions", str(topic.partitions)]
        return self.client(process, len(self.clients), f"compacted.{module}", *where, *arguments)

    # ---- the course of it ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        admin = self.cluster.admin()
        admin.configs.set({"log.cleaner.backoff.ms": 300}, timeout=10.0)
        for name, topic in TOPICS.items():
            admin.topics.create(
                name, partitions=topic.partitions, replicas=FACTOR, config=dict(topic.configs), timeout=20.0
            )
        admin.topics.create(EMPTIED, partitions=1, replicas=2, config=_EMPTIED_CONFIG, timeout=20.0)
        for client in (*self._writers, *self._readers):
            client.start()
        until(self._commit, "groups to be committed for", _FLOW_LIMIT_S)
        for name in INTERNAL:
            until(partial(self._configure, name), f"{name} to be there", _FLOW_LIMIT_S)
        self.nemesis.until_whole()
        for name, topic in TOPICS.items():
            self._names[name] = [self.cluster.partition_name(name, n) for n in range(topic.partitions)]
        for name in INTERNAL:
            self._names[name] = [self.cluster.partition_name(name, n) for n in range(SHARDS)]
        for name, topic in TOPICS.items():
            writers = [writer for writer in self._writers if writer.name.startswith(f"{name}-")]
            flow = partial(self.all_acknowledged, writers, topic.partitions)
            until(flow, f"every writer of {name} to be acknowledged", _FLOW_LIMIT_S)
        self.nemesis.count_elections()

    def _configure(self, name: str) -> bool:
        with suppress(ottla.OttlaError):
            self.cluster.admin().configs.set(_INTERNAL_CONFIG, topic=name, timeout=10.0)
            return True
        return False

    def harm(self, seconds: float) -> None:
        row = self.result.row
        share = seconds / (row.minutes * 60)
        least = int(LEAST_HITS * min(1.0, share)) if not row.hits else LEAST_HITS_OF_A_MUTANT
        self.nemesis.run(time.monotonic() + seconds, least, row.hits)

    def come_to_rest(self) -> None:
        for client in (*self._writers, *self._readers):
            client.terminate()
        self.until_ended([*self._writers, *self._readers], _END_LIMIT_S)
        self.nemesis.until_whole()
        self._check_ends()
        self._check_growth()
        self._replace_a_disk()
        for name in (*TOPICS, EMPTIED):
            for number in range(len(self.cluster.brokers)):
                for level in ("read_committed", "read_uncommitted"):
                    self._read_all(name, f"rack-{number}", level)
        self._check_offsets()
        self._notes.close()

    def _check_ends(self) -> None:
        """Check that all transactions have ended; those of killed producers end only with their timeout."""
        for name in (*TOPICS, *INTERNAL):
            blocked: list[str] = []

            def is_over(name: str = name, blocked: list[str] = blocked) -> bool:
                try:
                    found = self.cluster.admin().transactions.open_in(name, timeout=5.0)
                except ottla.OttlaError as error:
                    blocked[:] = [str(error)]
                    return False
                blocked[:] = [
                    f"{each.partition} is stable up to {each.last_stable_offset} of {each.high_watermark}"
                    for each in found
                    if each.last_stable_offset < each.high_watermark
                ]
                return not blocked

            try:
                until(is_over, f"transactions in {name} to end", 3 * TIMEOUT_S)
            except TimeoutError:
                for what in blocked:
                    self._checker.findings.add("lso_stuck", what)

    def _check_growth(self) -> None:
        """Check, before anybody reads from followers, that replicas keep no ended transactions."""
        for topic, directories in self._names.items():
            for directory in (data_dir / name for data_dir in self.cluster.data_dirs for name in directories):
                if (ended := ended_in(directory)) > MOST_ENDED:
                    self._checker.findings.add("grown", f"{topic}, {directory}: {ended} transactions that are over")

    def _replace_a_disk(self) -> None:
        """Replace a broker's disk by an empty one: everything in any log has to be copied."""
        name = self.nemesis.random.choice(self.cluster.brokers)
        self.nemesis.kill(name)
        self.cluster.replace_disk(name)
        self.nemesis.start(name)
        try:
            self.cluster.until_whole(TABLE, _NEW_DISK_LIMIT_S)
        except TimeoutError:
            self._checker.findings.add("unsendable", f"{name} on a new disk has not all within {_NEW_DISK_LIMIT_S} s")

    def _read_all(self, topic: str, rack: str, level: Any) -> None:
        found: dict[tuple[int, int], Any] = {}
        give_up_at, error = time.monotonic() + _READ_LIMIT_S, None
        starts = {p: at or 0 for p, at in self.cluster.admin().topics.offsets(topic, "earliest").items()}
        with ottla.Consumer[Any, Any](
            topic, bootstrap=self.cluster.bootstrap, client_rack=rack, isolation_level=level, start="earliest",
            stop="end", key="bytes", value="bytes",
        ) as consumer:  # fmt: skip
            while not consumer.finished and time.monotonic() < give_up_at:
                try:
                    found |= {(r.partition, r.offset): (r.key, r.value) for r in consumer.poll(0.5)}
                except ottla.OttlaError as raised:
                    error = raised
                    time.sleep(0.2)
            if not consumer.finished:
                where = standstill(consumer, topic, self.cluster.bootstrap)
                what = (
                    f"{topic} can't be read to its end ({level}, {rack}): {len(found)} records; {where}; {error or ''}"
                )
                is_damaged = error is not None and error.code == ErrorCode.CORRUPT_MESSAGE
                self._checker.findings.add("damaged" if is_damaged else "unsendable", what)
        if topic in TOPICS:
            self._read[topic, f"{level} from {rack}"] = found
            former = self._starts.setdefault(topic, starts)
            self._starts[topic] = {p: max(at, former[p]) for p, at in starts.items()}

    def _check_offsets(self) -> None:
        for group in _GROUPS:
            at = self.cluster.admin().groups.committed(group, timeout=20.0).get(ottla.TopicPartition(TABLE, 0), 0)
            if at < self._committed:
                self._checker.findings.add("lost", f"group {group} is at {at}, {self._committed} was acknowledged")

    # ---- between two kills -----------------------------------------------------------------------------------------

    def _between(self) -> None:
        self._rounds += 1
        until(self._commit, "the groups to be committed for", _FLOW_LIMIT_S)
        if self._rounds % _DELETE_EVERY == 0:
            self._delete_below_a_transaction()

    def _commit(self) -> bool:
        number = self._committed + 1
        offsets = {ottla.TopicPartition(TABLE, 0): number}
        try:
            for group in _GROUPS:
                for _ in range(_COMMITS):
                    self.cluster.admin().groups.commit(group, offsets)
        except ottla.OttlaError as error:
            self.nemesis.note(f"commit refused: {error}")
            return False
        self._committed = number
        return True

    def _delete_below_a_transaction(self) -> None:
        """Delete all of a topic while a transaction is open in it: its readers have to go on from the log's start."""
        name = Name(self._notes.process, 0, self._rounds)
        try:
            with ottla.Producer[Any, Any](
                self.cluster.bootstrap, topic=LEDGER, transactional_id=name.writer, key="bytes", value="bytes",
                transaction_timeout=TIMEOUT_S, delivery_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S / 2,
            ) as producer:  # fmt: skip
                producer.init_transactions()
                producer.begin_transaction()
                self._notes.add("invoke", "send", partition=0, first=name.number, count=1)
                at = send(producer, name).result(TIMEOUT_S).offset
                self.cluster.admin().topics.delete_records(LEDGER, {0: -1}, timeout=TIMEOUT_S / 2)
                self._check_stable_offset()
                producer.commit_transaction()
                self._notes.add("ok", "send", partition=0, first=name.number, count=1, offset=at)
        except ottla.OttlaError as error:
            self.nemesis.note(f"deleting below a transaction: {error}")
        finally:
            self._notes.flush()

    def _check_stable_offset(self) -> None:
        """Check the offset from which Kafka's clients of committed records begin to read."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "nobody",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        try:
            low, high = consumer.get_watermark_offsets(KafkaPartition(LEDGER, 0), timeout=10.0)
        except KafkaException as error:
            self.nemesis.note(f"asking for the last stable offset: {error}")
            return
        finally:
            consumer.close()
        if high < low:
            self._checker.findings.add("lso_stuck", f"{LEDGER} starts at {low}, and is stable up to {high}")

    # ---- the verdict -----------------------------------------------------------------------------------------------

    def audit(self) -> AuditResult:
        """Read everything that the verdict compares."""
        result = AuditResult()
        for topic, directories in self._names.items():
            self._replicas[topic] = [
                [read_replica(data_dir / name) for data_dir in self.cluster.data_dirs] for name in directories
            ]
            result.partitions += len(directories)
            result.batches += sum(len(replica.batches) for found in self._replicas[topic] for replica in found)
        return result

    def _look_for_damage(self) -> None:
        """Look at sealed segments alone: the last one may be torn where its broker was killed."""
        names = [name for directories in self._names.values() for name in directories]
        for directory in (data_dir / name for data_dir in self.cluster.data_dirs for name in names):
            sealed = tuple(sorted(map(str, directory.glob("*.log")))[:-1])
            for what in read_replica(directory).wrong if sealed else ():
                if what.startswith(sealed):
                    self._checker.findings.add("damaged", what)

    def judge(self, *, share: float) -> None:
        result, nemesis = self.result, self.nemesis
        result.kinds, result.kills, result.power_cuts = dict(nemesis.kinds), nemesis.kills, nemesis.power_cuts
        result.elections, result.lost_bytes = nemesis.elections, nemesis.lost_bytes
        result.cleanings = self.cluster.cleanings_done()
        checker = self._checker
        result.findings = checker.findings
        for what in nemesis.after_emptied:
            checker.findings.add("lost", what)
        if not self.complete:
            result.failures.append("the cluster did not come to rest, so that its replicas can't be compared")
            self._look_for_damage()
        for topic, partitions in self._replicas.items():
            if topic in INTERNAL:
                for replicas in partitions:
                    checker.check_replicas(replicas, Policy(compact=True, delete=False))
                continue
            told = Told(op for op in read_history(self.history) if op["process"].startswith(f"{topic}-"))
            for number, replicas in enumerate(partitions):
                checker.check_partition(number, replicas, TOPICS[topic].policy, told)
            checker.check_passes(told, (op for op in read_history(self.history) if op["process"] == f"{topic}-r0"))
            for (of, who), found in self._read.items():
                if of == topic:
                    checker.check_read(f"{who}, of {topic}", found, told, self._starts[topic])
        result.failures += result.findings.examples
