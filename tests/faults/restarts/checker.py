"""What the clients found, and what lies in the topics in the end: counted by kind, with examples.

* lost: a row that is not there at all. A row that is poisoned for the App has to be in the dead letters.
* doubled: a row that is there more than once.
* torn: a transaction that is there only in part, or an aborted transaction or attempt that is there.
* reordered: rows of one key that the query has written in another order.
* short_listings: listings without an error that lack a name.
* false_failures: errors of clients, whose work nothing but restarts disturbs.
* false_hangs: live transactions that are said to hang.
* waits: topics whose readers waited longer than a transaction may last. A transaction that a task of the query has
  prepared stays open until the next driver ends it. So readers of the query's copy may wait as long as the query writes
  no micro-batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tests.faults.history import Operation
from tests.faults.restarts.content import (
    APP_COPIES,
    APP_DEAD,
    APP_TARGET,
    APP_TIMEOUT_S,
    QUERY_TARGET,
    is_poisoned,
    number_of,
)
from tests.faults.spark.copy import PARTITIONS
from tests.faults.spark.copy import check as check_copy

_RESTART_S: Final = 10.0
"""How long a transaction's coordinator may take to restart."""

_EXAMPLES: Final = 12

Rows = Sequence[tuple[bytes | None, bytes | None]]


@dataclass(slots=True)
class RestartFindings:
    counts: Counter[str] = field(default_factory=Counter)
    did: Counter[str] = field(default_factory=Counter)
    """What clients have done without a finding: listings by kind, looks, transactions, and rows that were read."""
    waits_s: dict[str, float] = field(default_factory=dict)
    """The longest wait of a reader, by topic."""
    pause_s: float = 0.0
    """The longest time between two micro-batches of the query."""
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.counts.total()

    def add(self, kind: str, words: str, number: int = 1) -> None:
        if number and self.counts[kind] < _EXAMPLES:
            self.examples.append(f"{kind}: {words}")
        self.counts[kind] += number


def check_history(operations: Iterable[Operation], findings: RestartFindings) -> None:
    """Check what the clients have noted."""
    batches_ns: list[int] = []
    for operation in operations:
        match operation:
            case {"f": "batch", "mono_ns": mono_ns}:
                batches_ns.append(mono_ns)
            case {"f": "listing", "type": "ok", "what": what}:
                findings.did[f"listings of {what}"] += 1
            case {"f": "listing", "type": "fail", "what": what, "missing": missing}:
                findings.add("short_listings", f"{what} lack {len(missing)}, {missing[0]} for one")
            case {"f": "listing", "what": "kafka"}:  # it has failed, or a shard has moved
                findings.did["listings of kafka that need not be complete"] += 1
            case {"f": "listing", "what": what, "error": error}:
                findings.add("false_failures", f"a listing of {what}: {error}")
            case {"f": "look"}:
                findings.did["looks"] += 1
            case {"f": "read", "topic": topic, "level": level, "rows": rows}:
                findings.did[f"rows of {topic} with {level}"] += rows
            case {"f": "hanging", "partition": partition, "offset": offset}:
                findings.add("false_hangs", f"a live transaction at {offset} of {partition} is said to hang")
            case {"f": "failure", "type": "info", "error": error, "process": process}:
                findings.add("false_failures", f"{process}: {error}")
            case {"f": "transaction", "type": "info", "error": error, "number": number}:
                findings.add("false_failures", f"transaction {number}: {error}")
            case {"f": "transaction", "type": "ok", "is_aborted": True, "number": number}:
                findings.add("torn", f"transaction {number} was aborted, and then committed")
            case {"f": "transaction"}:
                findings.did["transactions"] += 1
            case {"f": "wait", "topic": topic, "wait_s": wait_s}:
                findings.waits_s[topic] = max(wait_s, findings.waits_s.get(topic, 0.0))
    pauses_ns = [later - earlier for earlier, later in pairwise(sorted(batches_ns))]
    findings.pause_s = max(pauses_ns, default=0) / 1e9
    for topic, wait_s in findings.waits_s.items():
        longest_s = APP_TIMEOUT_S if topic != QUERY_TARGET else findings.pause_s
        if wait_s > longest_s + _RESTART_S:
            findings.add("waits", f"a reader of {topic} waited {wait_s:.1f} s, longer than {longest_s:.1f} s")


def check_query(copied: Rows, written: int, findings: RestartFindings) -> None:
    """Check the query's copy of the `written` rows of each partition."""
    found = check_copy(copied, written)
    findings.did["rows of the query"] = len(copied)
    for kind, number in (("lost", found.missing), ("doubled", found.repeated), ("reordered", found.reordered)):
        findings.add(kind, f"{number} rows of the query; {found.examples[:2]}", number)
    findings.add("torn", f"{found.foreign} rows that nothing has written; {found.examples[:2]}", found.foreign)


def check_app(values: Mapping[str, Counter[bytes]], written: int, findings: RestartFindings) -> None:
    """Check what the App made of the `written` rows of each partition. `values` has its topics' values, counted."""
    target, copies, dead = values[APP_TARGET], values[APP_COPIES], values[APP_DEAD]
    for row in (b"%d.%d" % (p, number) for p in range(PARTITIONS) for number in range(written)):
        sent, name = (target[row], copies[row]), row.decode()
        if is_poisoned(number_of(row)):
            findings.did["dead letters"] += dead[row]
            if any(sent):
                findings.add("torn", f"a failed attempt at {name} counts")
            if dead[row] != 1:
                findings.add("doubled" if dead[row] else "lost", f"{dead[row]} dead letters of {name}")
            continue
        findings.did["rows of the App"] += sent[0]
        if dead[row]:
            findings.add("doubled", f"{name} is a dead letter, and was not poisoned")
        if not any(sent):
            findings.add("lost", f"{name} was not handled")
        elif not all(sent):
            findings.add("torn", f"{name} stands in one of two topics")
        elif max(sent) > 1:
            findings.add("doubled", f"{name} was handled {max(sent)} times")


def check_operations(values: Counter[bytes], operations: Iterable[Operation], findings: RestartFindings) -> None:
    """Check the administrator's transactions."""
    for value, count in values.items():
        if count != PARTITIONS:
            findings.add("torn", f"transaction {value.decode()} stands in {count} of {PARTITIONS} partitions")
    for operation in operations:
        match operation:
            case {"f": "transaction", "type": "ok", "number": number} if not values[b"%d" % number]:
                findings.add("lost", f"transaction {number} was committed, and nothing of it is there")
            case {"f": "transaction", "type": "fail", "number": number} if values[b"%d" % number]:
                findings.add("torn", f"transaction {number} was aborted, and is there")
