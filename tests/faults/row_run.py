"""One row of the log: writers, readers, faults, final reads, and the check of all that clients saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.faults.checker import Checker, Findings, check
from tests.faults.cluster import FaultCluster, until
from tests.faults.fault_run import CLIENTS, FaultRun, Result
from tests.faults.gaps import Acknowledgements, gaps_by_kind, percentile
from tests.faults.history import FINAL, Operation, read_history
from tests.faults.idle import IDLE, IdlePartitions
from tests.faults.nemesis import LEAST_HITS, Nemesis
from tests.faults.node import Node
from tests.faults.rows import GOALS, Row

TOPIC: Final = "faults"
PARTITIONS: Final = 6
LIBRDKAFKA: Final = "librdkafka"
_IMPATIENT_S: Final = 4.0
_QUIET_LIMIT_S: Final = 150.0
_FLOW_LIMIT_S: Final = 30.0
_FINAL_LIMIT_S: Final = 120.0


@dataclass(slots=True)
class RowResult(Result[Row]):
    findings: Findings = field(default_factory=Findings)
    gaps: Mapping[str, list[float]] = field(default_factory=dict)
    """Seconds without an acknowledgement by kind of hit, and the measures of the row."""
    librdkafka: Counter[str] = field(default_factory=Counter)
    """What its clients did: records `acknowledged` and `read`, and `errors` that they were told of."""
    partitions: int = 0
    """Those under test, and beside them the idle ones that were found as they must be."""

    @property
    def caught(self) -> bool:
        """Whether clients' histories or the replicas' logs are wrong; to be slow or stuck is not enough."""
        return not self.findings.clean or bool(self.audit.differences)


def run_row(
    row: Row, directory: Path, *, seconds: float, seed: int, mutant: str = "", partitions: int = PARTITIONS
) -> RowResult:
    """Run it for about `seconds`, on a cluster of so many partitions: those above `PARTITIONS` are idle.

    With a `mutant` the cluster's services run with that rule broken. That ends once a value was read at two offsets:
    all else is certain only after the final reads.
    """
    run = RowRun(row, directory, seed, mutant, partitions)
    if partitions > PARTITIONS:  # to be whole again takes longer then: so does the row, until it had its share of hits
        share = min(1.0, seconds / (row.minutes * 60))
        run.nemesis.least_hits = max(LEAST_HITS, int(row.least_hits * share))
    if mutant:
        run.nemesis.caught = lambda: check(read_history(run.history)).counts["duplicated"] > 0
    return run.run(seconds)


class RowRun(FaultRun[RowResult]):
    """Beside its frame: what writes and reads, and what becomes of it."""

    def __init__(self, row: Row, directory: Path, seed: int, mutant: str, partitions: int = PARTITIONS) -> None:
        super().__init__(RowResult(row), directory)
        self.cluster = FaultCluster(directory / "cluster", self.network, mutant=mutant)
        self._idle = IdlePartitions(self.cluster.bootstrap, partitions - PARTITIONS)
        self.nemesis = Nemesis(
            self.cluster, TOPIC, PARTITIONS, CLIENTS, f"{seed}-{row.name}", directory / "nemesis.log"
        )
        impatient = ["--delivery-timeout", str(_IMPATIENT_S)] if row.impatient else []
        load = ["--partitions", str(PARTITIONS), "--rate", str(row.load.rate)]
        load += ["--tick", str(row.load.tick_s), "--batch-bytes", str(row.load.batch_bytes)]
        self._writers = [self._client("writer", "w0", *load), self._client("writer", "w1", *load, *impatient)]
        self._readers = [self._client("reader", "r0"), self._client("reader", "r1")]
        if row.librdkafka:
            other = ["--bootstrap", self.cluster.bootstrap, "--librdkafka"]
            self._writers.append(self._client("writer", f"{LIBRDKAFKA}-w0", *load, *other))
            self._readers.append(self._client("reader", f"{LIBRDKAFKA}-r1", *other, str(PARTITIONS)))
        self._final = self._client("reader", f"{FINAL}0", "--to-end")

    def begin(self) -> None:
        """Until every writer is acknowledged in every partition, and the idle ones hold their records."""
        if self._idle.count:
            self.make_topic(IDLE, self._idle.count, min_insync_replicas=2)
            self._idle.fill()
            self.cluster.topics_beside = (IDLE,)
        self.make_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
        for client in (*self._writers, *self._readers):
            client.start()
        flow = partial(self.all_acknowledged, self._writers, PARTITIONS)
        until(flow, "every writer to be acknowledged in every partition", _FLOW_LIMIT_S)

    def come_to_rest(self) -> None:
        """Final reads, from the first offset to the end, once writers have ended and the cluster is whole."""
        self._end(self._writers)
        self.cluster.until_whole(TOPIC)
        self._final.start()
        self.until_ended([self._final], _FINAL_LIMIT_S)
        self._end(self._readers)
        differences = self._idle.differences() if self._idle.count else []
        self.result.failures += differences
        self.result.partitions = PARTITIONS + self._idle.count - len(differences)

    def _end(self, clients: list[Node]) -> None:
        for client in clients:
            client.terminate()
        self.until_ended(clients, _QUIET_LIMIT_S)

    def _client(self, module: str, process: str, *arguments: str) -> Node:
        bootstrap = ["--topic", TOPIC, "--bootstrap", self.cluster.bootstrap]
        return self.client(process, int(process[-1]), module, *bootstrap, *arguments)

    def judge(self, *, share: float) -> None:
        result, row = self.result, self.result.row
        if not self.complete:
            result.failures.append("without final reads there is nothing to check")
            return
        checker, acknowledgements = Checker(), Acknowledgements()
        for operation in read_history(self.history):
            checker.on_operation(operation)
            acknowledgements.on_operation(operation)
            if operation["process"].startswith(LIBRDKAFKA):
                result.librdkafka += counted(operation)
        result.findings = checker.findings()
        result.gaps = {**gaps_by_kind(self.nemesis.hits, acknowledgements), **self.nemesis.measures}
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
        ("leader kills", result.kills, row.least_leader_kills),
    )
    return [
        f"{what}: {count}, the floor is {least * share:.0f}" for what, count, least in did if count < int(least * share)
    ]
