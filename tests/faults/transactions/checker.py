"""What clients saw of transactions, held against what can be read in the end. Pure: operations in, findings out.

The operations are those of `client` and `reader`, and of the run itself: `hanging`, `offsets`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from tests.faults.history import FINAL, Operation
from tests.faults.kinds_found import KindsFound
from tests.faults.transactions.reader import PASS

KINDS: Final = (
    "torn",  # some of its partitions have it, others have not
    "aborted_reads",  # its client knows that it was aborted, or never committed it
    "duplicates",
    "hanging",
    "lost",  # its client was told that it is committed
    "offsets",  # those that are committed are not those of what was written with them
    "zombies",  # committed by a producer after another one had its id
    "went_back",  # read, and then not there any more
    "unknown",  # nobody has written it
)
COMMITTED: Final = FINAL + "committed"
UNCOMMITTED: Final = FINAL + "uncommitted"

Partition = tuple[str, int]


@dataclass(slots=True)
class Transaction:
    transactional_id: str
    process: str
    partitions: frozenset[Partition]
    at: int
    ended_ns: int = 0
    """When its commit was called."""
    outcome: str = ""


@dataclass(slots=True)
class TransactionFindings(KindsFound):
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    by_client: Counter[str] = field(default_factory=Counter)
    """Transactions whose end is known."""
    fenced: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    """Those whose end is not known to their clients."""
    read: int = 0


class TransactionChecker:
    """Feed it every operation; then `findings`."""

    def __init__(self) -> None:
        self._transactions: Final[dict[str, Transaction]] = {}
        self._found: Final = defaultdict[str, defaultdict[str, Counter[Partition]]](lambda: defaultdict(Counter))
        self._inits: Final = defaultdict[str, list[tuple[int, str]]](list)
        self._offsets: Final[dict[str, int]] = {}
        self._result: Final = TransactionFindings()

    def on_operation(self, operation: Operation) -> None:
        match operation["f"], operation["type"]:
            case "poll", _:
                found, partition = self._found[operation["process"]], _partition(operation["partition"])
                for tag in operation["tags"]:
                    found[tag][partition] += 1
            case "txn", "invoke":
                partitions = frozenset(map(_partition, operation["partitions"]))
                transaction = Transaction(operation["id"], operation["process"], partitions, operation["at"])
                self._transactions[operation["tag"]] = transaction
            case "end", _:
                self._transactions[operation["tag"]].ended_ns = operation["mono_ns"]
            case "txn", outcome:
                self._transactions[operation["tag"]].outcome = outcome
            case "init", _:
                self._inits[operation["id"]].append((operation["mono_ns"], operation["process"]))
            case "fenced", _:
                self._result.fenced[operation["process"]] += 1
            case "offsets", _:
                self._offsets[operation["id"]] = operation["offset"]
            case "hanging", _:
                self._result.add("hanging", operation["what"])

    def findings(self) -> TransactionFindings:
        result, committed = self._result, self._found[COMMITTED]
        for transaction in self._transactions.values():
            if transaction.outcome in ("ok", "fail"):
                result.by_client[transaction.transactional_id.partition(".")[0]] += 1
        result.unknown = sum(t.outcome in ("", "info") for t in self._transactions.values())
        result.read = len(committed)
        for process, found in self._found.items():
            self._check_reader(process, found)
        for tag, transaction in self._transactions.items():
            if tag in committed:
                self._check_committed(tag, transaction, committed[tag])
            elif transaction.outcome == "ok":
                result.add("lost", tag)
        self._check_offsets(committed)
        self._check_passes()
        return result

    def _check_reader(self, process: str, found: Any) -> None:
        for tag, partitions in found.items():
            if twice := [partition for partition, count in partitions.items() if count > 1]:
                self._result.add("duplicates", f"{tag} in {twice}, as {process} has read")
            transaction = self._transactions.get(tag)
            if transaction is None:
                self._result.add("unknown", f"{tag}, as {process} has read")
            elif transaction.outcome == "fail" and process != UNCOMMITTED:
                self._result.add("aborted_reads", f"{tag}, as {process} has read")
            final = self._found[COMMITTED].get(tag, Counter())
            if process not in (COMMITTED, UNCOMMITTED) and not partitions.keys() <= final.keys():
                self._result.add("went_back", f"{tag}, as {process} has read, is not there in the end")

    def _check_committed(self, tag: str, transaction: Transaction, partitions: Counter[Partition]) -> None:
        if partitions.keys() and partitions.keys() != transaction.partitions:
            where = sorted(transaction.partitions - partitions.keys())
            self._result.add("torn", f"{tag} is in {sorted(partitions)}, not in {where}")
        inits = [each for each in self._inits[transaction.transactional_id] if each[0] < transaction.ended_ns]
        if inits and max(inits)[1] != transaction.process:
            self._result.add("zombies", f"{tag} was committed though {max(inits)[1]} had the id")

    def _check_offsets(self, committed: Iterable[str]) -> None:
        """What was taken, taken once, in order, without a gap, up to what is committed."""
        taken = defaultdict[str, list[int]](list)
        for tag in committed:
            transaction = self._transactions.get(tag)
            if transaction is not None and transaction.at >= 0:
                taken[transaction.transactional_id].append(transaction.at)
        for name, offset in self._offsets.items():
            if sorted(taken[name]) != list(range(offset)):
                wrong = sorted((Counter(taken[name]) - Counter(range(offset))).elements())
                missing = sorted(set(range(offset)).difference(taken[name]))
                self._result.add("offsets", f"{name} is at {offset}; too many: {wrong[:5]}, too few: {missing[:5]}")

    def _check_passes(self) -> None:
        passes = [self._found[name] for name in sorted(self._found) if name.startswith(PASS)]
        for before, after in pairwise(passes):
            for tag in before:
                if not before[tag].keys() <= after[tag].keys():
                    self._result.add("went_back", f"{tag} was read, and not by the next reader")


def check(history: Iterable[Operation]) -> TransactionFindings:
    checker = TransactionChecker()
    for operation in history:
        checker.on_operation(operation)
    return checker.findings()


def _partition(named: Any) -> Partition:
    return named[0], named[1]
