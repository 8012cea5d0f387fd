"""One row from a fresh cluster to a verdict: load, faults, final reads, a stop in order, the check, the audit."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.audit import AuditResult, compare_replicas
from tests.faults.checker import Checker, Findings
from tests.faults.cluster import BROKERS, CONTROLLERS, ETCD, FaultCluster, until
from tests.faults.gaps import Acknowledgements, gaps_by_kind, percentile
from tests.faults.history import FINAL, Operation, read_history, read_lines
from tests.faults.nemesis import Nemesis
from tests.faults.network import Network
from tests.faults.node import Node
from tests.faults.rows import GOALS, Row

import ottla

TOPIC: Final = "faults"
PARTITIONS: Final = 6
FACTOR: Final = 3
CLIENTS: Final = ("client-0", "client-1")
LAG_MAX_MS: Final = 3000
LIBRDKAFKA: Final = "librdkafka"
_IMPATIENT_S: Final = 4.0
_QUIET_LIMIT_S: Final = 150.0
_FLOW_LIMIT_S: Final = 30.0
_FINAL_LIMIT_S: Final = 120.0


@dataclass(slots=True)
class RowResult:
    row: Row
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)
    audit: AuditResult = field(default_factory=AuditResult)
    gaps: Mapping[str, list[float]] = field(default_factory=dict)
    """Seconds without an acknowledgement by kind of hit, and the measures of the row."""
    hits: int = 0
    leader_kills: int = 0
    librdkafka: Counter[str] = field(default_factory=Counter)
    """What its clients did: records `acknowledged` and `read`, and `errors` that they were told of."""
    failures: list[str] = field(default_factory=list)

    @property
    def caught(self) -> bool:
        """Whether clients' histories or the replicas' logs are wrong; to be slow or stuck is not enough."""
        return not self.findings.clean or bool(self.audit.differences)


def run_row(row: Row, directory: Path, *, seconds: float, seed: int, mutant: str = "") -> RowResult:
    """Run it for about `seconds`. Whatever goes wrong is in the result's failures; nothing is left running.

    With a `mutant` the cluster's services run with that rule broken.
    """
    result = RowResult(row)
    began = time.monotonic()
    network = Network([ETCD, *names("controller", CONTROLLERS), *names("broker", BROKERS), *CLIENTS])
    run = _RowRun(row, directory, network, seed, mutant)
    network.start()
    try:
        run.nemesis_for(seconds)
        run.read_all()
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


class _RowRun:
    def __init__(self, row: Row, directory: Path, network: Network, seed: int, mutant: str) -> None:
        self._row = row
        self.history: Final = directory / "history"
        self.history.mkdir(parents=True)
        self.cluster: Final = FaultCluster(directory / "cluster", network, mutant=mutant)
        self._network = network
        self.nemesis: Final = Nemesis(
            self.cluster, TOPIC, PARTITIONS, CLIENTS, f"{seed}-{row.name}", directory / "nemesis.log"
        )
        impatient = ["--delivery-timeout", str(_IMPATIENT_S)] if row.impatient else []
        load = ["--partitions", str(PARTITIONS), "--rate", str(row.load.rate)]
        load += ["--tick", str(row.load.tick_s), "--batch-bytes", str(row.load.batch_bytes)]
        self._writers = [self._client("writer", "w0", *load), self._client("writer", "w1", *load, *impatient)]
        self._readers = [self._client("reader", "r0"), self._client("reader", "r1")]
        if row.librdkafka:
            other = ["--bootstrap", self.cluster.kafka_bootstrap, "--librdkafka"]
            self._writers.append(self._client("writer", f"{LIBRDKAFKA}-w0", *load, *other))
            self._readers.append(self._client("reader", f"{LIBRDKAFKA}-r1", *other, str(PARTITIONS)))
        self._final = self._client("reader", f"{FINAL}0", "--to-end")

    def nemesis_for(self, seconds: float) -> None:
        """Start everything, do harm for so long, and let the writers come to an end."""
        self.cluster.start()
        admin = self.cluster.admin()
        admin.configs.set({"replica.lag.time.max.ms": LAG_MAX_MS}, timeout=10.0)
        admin.topics.create(
            TOPIC,
            partitions=PARTITIONS,
            replicas=FACTOR,
            config={"min.insync.replicas": 2},
            timeout=10.0,
        )
        self.cluster.until_whole(TOPIC)
        for client in (*self._writers, *self._readers):
            client.start()
        until(self._all_flows, "every writer to be acknowledged in every partition", _FLOW_LIMIT_S)
        try:
            self._row.run(self.nemesis, time.monotonic() + seconds)
        except (TimeoutError, ottla.OttlaError) as error:
            self.nemesis.failures.append(f"the faults ended early: {error}")
            self.cluster.recover()
        for writer in self._writers:
            writer.terminate()
        for client in self._writers:
            self._end_well(client, _QUIET_LIMIT_S)

    def _all_flows(self) -> bool:
        return all(
            len({op["partition"] for op in read_lines(self.history, writer.name) if op["type"] == "ok"}) == PARTITIONS
            for writer in self._writers
        )

    def read_all(self) -> None:
        """Final reads, from the first offset to the end, once the cluster is whole."""
        self.cluster.until_whole(TOPIC)
        self._final.start()
        self._end_well(self._final, _FINAL_LIMIT_S)
        for reader in self._readers:
            reader.terminate()
        for reader in self._readers:
            self._end_well(reader, _QUIET_LIMIT_S)

    def end(self) -> None:
        for client in (*self._writers, *self._readers, self._final):
            client.kill()
        self.cluster.kill()

    def _client(self, module: str, process: str, *arguments: str) -> Node:
        where = CLIENTS[int(process[-1])]
        command = [sys.executable, "-m", f"tests.faults.{module}", "--process", process, "--topic", TOPIC]
        command += ["--bootstrap", self.cluster.bootstrap, "--history", str(self.history), *arguments]
        return Node(process, self._network.command(where, command), self.cluster.directory / f"{process}.log")

    def _end_well(self, client: Node, limit_s: float) -> None:
        code = client.wait(limit_s)
        if code != 0:
            self.nemesis.failures.append(f"{client.name} ended with {code}; its log lies beside the brokers'")


def _judge(result: RowResult, run: _RowRun, *, share: float) -> None:
    """Check the history, and hold everything against the goals and this row's floors."""
    row, nemesis = result.row, run.nemesis
    result.hits, result.leader_kills = len(nemesis.hits), nemesis.leader_kills
    complete = not result.failures
    result.failures += nemesis.failures
    if not complete:
        result.failures.append("without final reads there is nothing to check")
        return
    checker, acknowledgements = Checker(), Acknowledgements()
    for operation in read_history(run.history):
        checker.on_operation(operation)
        acknowledgements.on_operation(operation)
        if operation["process"].startswith(LIBRDKAFKA):
            result.librdkafka += counted(operation)
    result.findings = checker.findings()
    result.gaps = {**gaps_by_kind(nemesis.hits, acknowledgements), **nemesis.measures}
    for examples in result.findings.examples.values():
        result.failures += examples
    result.failures += result.audit.differences
    result.failures += [
        f"{process} was told {count} times: {words}"
        for (process, words), count in result.findings.client_errors.items()
        if not (row.impatient and process == "w1")
    ]
    if row.librdkafka and not result.librdkafka["read"] >= result.librdkafka["acknowledged"] > 0:
        result.failures.append(f"librdkafka's clients did too little: {dict(result.librdkafka)}")
    result.failures += missed_goals(result.gaps) + missed_floors(result, share)


def counted(operation: Operation) -> Counter[str]:
    """One client's operation as `RowResult.librdkafka` counts it."""
    match operation:
        case {"f": "send", "type": "ok", "count": count}:
            return Counter(acknowledged=count)
        case {"f": "poll", "type": "ok", "values": runs}:
            return Counter(read=sum(count for _, _, count in runs))
        case {"type": "info" | "fail"}:
            return Counter(errors=operation.get("count", 1))
    return Counter()


def missed_goals(gaps: Mapping[str, list[float]]) -> list[str]:
    """In words, the percentiles that are above their goal; `gaps` are seconds by kind."""
    missed = []
    for kind, goal in GOALS.items():
        for share, limit_s in ((0.5, goal.p50_s), (0.99, goal.p99_s)):
            if (measured := percentile(gaps.get(kind, ()), share)) > limit_s:
                missed.append(f"{kind}: p{share * 100:.0f} is {measured:.2f} s, the goal {limit_s:g} s")
    return missed


def missed_floors(result: RowResult, share: float) -> list[str]:
    """In words, what was done too little of to mean anything; `share` of the row's time is what can be asked for."""
    row, share = result.row, min(1.0, share)
    did = (
        ("acknowledged", result.findings.acknowledged, row.least_acknowledged),
        ("hits", result.hits, row.least_hits),
        ("leader kills", result.leader_kills, row.least_leader_kills),
    )
    return [
        f"{what}: {count}, the floor is {least * share:.0f}" for what, count, least in did if count < int(least * share)
    ]


def names(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]
